"""Cholesky factors and inverses of triangular matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart import _native

__all__ = ["Cholesky", "CholeskyWithInverse", "cholesky_ex", "triangular_inverse"]

_INVERSE_BLOCK = 32


def cholesky_ex(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Lower factors and, per matrix, 0 or the pivot that failed; no gradient."""
    native = _native.operations(matrix) if matrix.ndim == 3 else None
    if native is None:
        lower, info = torch.linalg.cholesky_ex(matrix)
        return lower, info
    return native.cholesky(matrix.contiguous())


def triangular_inverse(lower: Tensor) -> Tensor:
    r"""Inverse of a lower-triangular matrix; in PyTorch by recursive halving, which is mostly
    matrix products.

    .. math:: \begin{pmatrix} A & 0 \\ B & C \end{pmatrix}^{-1} =
              \begin{pmatrix} A^{-1} & 0 \\ -C^{-1} B A^{-1} & C^{-1} \end{pmatrix}
    """
    native = _native.operations(lower) if lower.ndim == 3 else None
    if native is not None:
        return native.triangular_inverse(lower.contiguous())
    size = lower.shape[-1]
    if size <= _INVERSE_BLOCK:
        identity = torch.eye(size, dtype=lower.dtype, device=lower.device)
        return torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False)
    half = size // 2
    first = triangular_inverse(lower[..., :half, :half])
    last = triangular_inverse(lower[..., half:, half:])
    inverse = torch.zeros_like(lower)
    inverse[..., :half, :half] = first
    inverse[..., half:, half:] = last
    inverse[..., half:, :half] = (last @ (lower[..., half:, :half] @ first)).neg_()
    return inverse


def _cholesky_gradient(
    lower: Tensor, inverse: Tensor, grad_lower: Tensor | None, grad_inverse: Tensor | None
) -> Tensor | None:
    r"""Gradient of :math:`K \mapsto (L, L^{-1})`, with :math:`K = L L^\top`.

    Let :math:`X = L^{-1}\, dK\, L^{-\top}` and :math:`\Phi` keep the lower triangle with half the
    diagonal. Then :math:`dL = L\, \Phi(X)` and :math:`dL^{-1} = -\Phi(X)\, L^{-1}`, so

    .. math:: \langle \bar L, dL \rangle + \langle \overline{L^{-1}}, dL^{-1} \rangle
              = \langle L^\top \bar L - \overline{L^{-1}} L^{-\top}, \Phi(X) \rangle
              = \langle M, \Phi(X) \rangle

    and :math:`\bar K = L^{-\top}\, \tfrac12 (\Phi(M) + \Phi(M)^\top)\, L^{-1}`. At most four
    products of size :math:`P^3`. Entries of the incoming gradients above the diagonal never reach
    the lower triangle of :math:`M`.
    """
    if grad_lower is None and grad_inverse is None:
        return None
    native = _native.operations(lower)
    if native is not None:
        gradients = (g if g is None else g.contiguous() for g in (grad_lower, grad_inverse))
        return native.cholesky_backward(lower, inverse, *gradients)
    if grad_lower is None:
        middle = torch.matmul(grad_inverse, inverse.mT).neg_()  # type: ignore[arg-type]
    else:
        middle = torch.matmul(lower.mT, grad_lower)
        if grad_inverse is not None:
            middle -= torch.matmul(grad_inverse, inverse.mT)
    middle.tril_()
    middle.diagonal(dim1=-2, dim2=-1).mul_(0.5)
    symmetric = (middle + middle.mT).mul_(0.5)
    return torch.matmul(inverse.mT, torch.matmul(symmetric, inverse))


class Cholesky(torch.autograd.Function):
    r""":math:`K \mapsto L`, the factor being known; its inverse is formed only for the gradient."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, lower: Tensor) -> Tensor:
        ctx.save_for_backward(lower.contiguous())
        return lower.view_as(lower)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_lower: Tensor) -> tuple[Tensor | None, None]:
        (lower,) = ctx.saved_tensors
        return _cholesky_gradient(lower, triangular_inverse(lower), grad_lower, None), None


class CholeskyWithInverse(torch.autograd.Function):
    r""":math:`K \mapsto (L, L^{-1})`, see :func:`_cholesky_gradient`."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, lower: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        inverse = triangular_inverse(lower)
        ctx.save_for_backward(lower.contiguous(), inverse)
        return lower.view_as(lower), inverse

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_lower: Tensor | None, grad_inverse: Tensor | None
    ) -> tuple[Tensor | None, None]:
        lower, inverse = ctx.saved_tensors
        return _cholesky_gradient(lower, inverse, grad_lower, grad_inverse), None
