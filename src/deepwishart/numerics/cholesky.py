r"""Cholesky factors together with their inverses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart import native
from deepwishart.native.fakes import fake, fake_like
from deepwishart.numerics.batches import contiguous, flatten
from deepwishart.numerics.first_order import Operation, first_order

__all__ = ["cholesky_inverse"]


def cholesky_inverse(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r""":math:`K \mapsto (L, L^{-1})` with :math:`K = L L^\top`.

    Returns:
        both factors ``(..., P, P)`` and, per matrix, 0 or the pivot that failed ``(...)``; where
        one did, the factors are not valid.

    >>> lower, inverse, failed = cholesky_inverse(torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
    >>> torch.allclose(lower @ inverse, torch.eye(2)), int(failed)
    (True, 0)
    """
    if native.operations(matrix) is None:
        return plain_cholesky_inverse(matrix)
    lower, inverse, failed = CholeskyInverse.apply(flatten(matrix))
    batch = matrix.shape[:-2]
    return lower.reshape(matrix.shape), inverse.reshape(matrix.shape), failed.reshape(batch)


def plain_cholesky_inverse(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same in ordinary PyTorch."""
    lower, failed = torch.linalg.cholesky_ex(matrix)
    identity = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    inverse = torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False)
    return lower, inverse, failed


class CholeskyInverse(Operation):
    r"""Let :math:`X = L^{-1}\, dK\, L^{-\top}` and :math:`\Phi` keep the lower triangle with half
    the diagonal. Then :math:`dL = L\, \Phi(X)` and :math:`dL^{-1} = -\Phi(X)\, L^{-1}`, so

    .. math:: \langle \bar L, dL \rangle + \langle \overline{L^{-1}}, dL^{-1} \rangle
              = \langle L^\top \bar L - \overline{L^{-1}} L^{-\top}, \Phi(X) \rangle
              = \langle M, \Phi(X) \rangle

    and :math:`\bar K = L^{-\top}\, \tfrac12 (\Phi(M) + \Phi(M)^\top)\, L^{-1}`. At most four
    products of size :math:`P^3`, however many solves were made with the factor. Entries of the
    incoming gradients above the diagonal never reach the lower triangle of :math:`M`.
    """

    @staticmethod
    def forward(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return torch.ops.deepwishart.cholesky_inverse(matrix)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        lower, inverse, failed = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(failed)
        ctx.save_for_backward(lower, inverse)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> Tensor | None:
        if gradients[0] is None and gradients[1] is None:
            return None
        incoming = map(contiguous, gradients[:2])
        return torch.ops.deepwishart.cholesky_inverse_backward(*ctx.saved_tensors, *incoming)


@fake("cholesky_inverse")
def _(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    failed = matrix.new_empty(matrix.shape[:1], dtype=torch.int32)
    return torch.empty_like(matrix), torch.empty_like(matrix), failed


fake_like("cholesky_inverse_backward", 1)
