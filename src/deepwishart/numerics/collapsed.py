r"""The sums over rows from which a Gaussian process with Gaussian noise is conditioned."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart import native
from deepwishart.native.fakes import fake
from deepwishart.numerics import linalg
from deepwishart.numerics.batches import or_zero, row_pieces
from deepwishart.numerics.first_order import Operation, first_order
from deepwishart.numerics.gaussian import (
    Cross,
    cross_gradients,
    fake_cross,
    fake_cross_gradients,
    formed,
    kept_cross,
    row_blocks,
)

__all__ = ["row_sums"]


def row_sums(
    kernel: Tensor, inverse: Tensor, cross: Cross, targets: Tensor
) -> tuple[Tensor, Tensor]:
    r""":math:`A A^\top`, ``(..., P, P)``, and :math:`A y`, ``(..., P, D)``, with
    :math:`A = L^{-1} K_{it}` and :math:`K_{ii} = L L^\top`; the gradient goes past the factor to
    :math:`K_{ii}`.

    Args:
        kernel: :math:`K_{ii}` with jitter, ``(..., P, P)``.
        inverse: :math:`H = L^{-1}` of it, taken as a known function of it; no gradient.
        cross: :math:`K_{it}`, ``(..., P, N)``, possibly not yet formed.
        targets: :math:`y`, ``(N, D)``.

    >>> one = torch.ones(1, 1)
    >>> row_sums(4 * one, 0.5 * one, torch.tensor([[2.0, 4.0]]), torch.ones(2, 1))
    (tensor([[5.]]), tensor([[3.]]))
    """
    if native.operations(kernel) is None:
        return plain_row_sums(kernel, cross, targets)
    blocks = row_blocks(cross, kernel, inverse.detach())
    found = [
        Sums.apply(K, H, y.contiguous(), *block)[:2]
        for (K, H, *block), y in zip(blocks, row_pieces(targets, dim=-2), strict=True)
    ]
    gram, products = (sum(parts[1:], start=parts[0]) for parts in zip(*found, strict=True))
    sides = (cross,) if isinstance(cross, Tensor) else (cross.left, cross.right)
    batch = torch.broadcast_shapes(*(side.shape[:-2] for side in (kernel, *sides)))
    return gram.reshape(*batch, *gram.shape[1:]), products.reshape(*batch, *products.shape[1:])


def plain_row_sums(kernel: Tensor, cross: Cross, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The same in ordinary PyTorch."""
    lower = linalg.cholesky(kernel, what="the kernel matrix of the output layer")
    projected = linalg.solve_lower(lower, formed(cross))
    return projected @ projected.mT, projected @ targets


class Sums(Operation):
    r""":math:`(K_{ii}, K_{it}) \mapsto (T, c) = (A A^\top, A y)`, :math:`A = H K_{it}`.

    With :math:`S = \bar T + \bar T^\top`, :math:`\bar A = S A + \bar c y^\top` and
    :math:`\bar K_{it} = H^\top \bar A`: one product of size :math:`P^2 N`, :math:`H^\top S` being
    formed first. As functions of :math:`K_{ii}`, :math:`T = H \Phi H^\top` and :math:`c = H \psi`
    with sums :math:`\Phi, \psi` that do not know :math:`H`, and :math:`dH = -\Phi_{1/2}(X) H`
    (:class:`~deepwishart.numerics.cholesky.CholeskyInverse`), so that

    .. math:: M = -(S T + \bar c c^\top), \qquad
              \bar K_{ii} = H^\top \tfrac12 (\Phi_{1/2}(M) + \Phi_{1/2}(M)^\top) H

    takes products of size :math:`P^3` only. Forward, :math:`A` uses that :math:`H` is triangular
    and :math:`T` that it is symmetric: together about one :math:`P^2 N` product. A matrix
    :math:`K_{it}` that was formed on the way sends its gradient on as in
    :class:`~deepwishart.numerics.condition.Condition`.
    """

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        return torch.ops.deepwishart.row_sums_forward(*inputs[1:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        gram, products, projected, *kept = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(projected, *kept)
        cross, *features = kept_cross(inputs, kept)
        ctx.save_for_backward(*inputs[1:3], cross, projected, *features, gram, products)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        *kept, gram, products = ctx.saved_tensors
        slopes = or_zero(gradients[0], gram), or_zero(gradients[1], products)
        kernel, *rest = torch.ops.deepwishart.row_sums_backward(*kept, gram, products, *slopes)
        return kernel, None, None, *cross_gradients(rest, formed=kept[-1] is not None)


@fake("row_sums_forward")
def _(
    inverse: Tensor, targets: Tensor, cross: Tensor | None, left: Any, right: Any, *scales: Any
) -> tuple[Tensor, ...]:
    kept = fake_cross(cross, left, right)
    projected = torch.empty_like(kept[0] if cross is None else cross)
    products = inverse.new_empty(*inverse.shape[:2], targets.shape[1])
    return torch.empty_like(inverse), products, projected, *kept


@fake("row_sums_backward")
def _(
    inverse: Tensor, targets: Tensor, cross: Tensor, projected: Tensor, a: Any, b: Any, *rest: Any
) -> tuple[Tensor, ...]:
    return torch.empty_like(inverse), *fake_cross_gradients(cross, a, b)
