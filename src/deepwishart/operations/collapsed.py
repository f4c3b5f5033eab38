r"""The sums over rows from which a Gaussian process with Gaussian noise is conditioned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from deepwishart import _native, linalg
from deepwishart._native.fakes import fake
from deepwishart.operations.batches import flatten_all, or_zero, row_pieces
from deepwishart.operations.first_order import first_order, known_signature
from deepwishart.operations.gaussian import GaussianKernel

__all__ = ["RowSums", "row_sums"]


class RowSums(NamedTuple):
    r"""Sums over rows, with :math:`A = L^{-1} K_{it}` and :math:`K_{ii} = L L^\top`.

    Attributes:
        gram: :math:`A A^\top`, ``(..., P, P)``.
        products: :math:`A y`, ``(..., P, D)``.
    """

    gram: Tensor
    products: Tensor


def row_sums(
    kernel: Tensor, inverse: Tensor, cross: Tensor | GaussianKernel, targets: Tensor
) -> RowSums:
    r""":math:`A A^\top` and :math:`A y`, whose gradient goes past the factor to :math:`K_{ii}`.

    Args:
        kernel: :math:`K_{ii}` with jitter, ``(..., P, P)``.
        inverse: :math:`H = L^{-1}` of it, taken as a known function of it; no gradient.
        cross: :math:`K_{it}`, ``(..., P, N)``, possibly not yet formed.
        targets: :math:`y`, ``(N, D)``.

    >>> one = torch.ones(1, 1)
    >>> row_sums(4 * one, 0.5 * one, torch.tensor([[2.0, 4.0]]), torch.ones(2, 1))
    RowSums(gram=tensor([[5.]]), products=tensor([[3.]]))
    """
    if _native.operations(kernel) is None:
        return plain_row_sums(kernel, cross, targets)
    if isinstance(cross, GaussianKernel):
        rows = row_pieces(cross.right, dim=-2)
        pieces = [replace(cross, right=part) for part in rows]
        batch = torch.broadcast_shapes(
            kernel.shape[:-2], cross.left.shape[:-2], cross.right.shape[:-2]
        )
        found = [
            _gaussian_sums(kernel, inverse, piece, part)
            for piece, part in zip(pieces, row_pieces(targets, dim=-2), strict=True)
        ]
    else:
        batch = torch.broadcast_shapes(kernel.shape[:-2], cross.shape[:-2])
        found = []
        for part, y in zip(row_pieces(cross, -1), row_pieces(targets, -2), strict=True):
            K, H, block = flatten_all(kernel, inverse.detach(), part)
            gram, products, _ = Sums.apply(K, H, block, y.contiguous())
            found.append((gram, products))
    gram, products = (_sum(parts) for parts in zip(*found, strict=True))
    return RowSums(
        gram.reshape(*batch, *gram.shape[1:]), products.reshape(*batch, *products.shape[1:])
    )


def plain_row_sums(kernel: Tensor, cross: Tensor | GaussianKernel, targets: Tensor) -> RowSums:
    """The same in ordinary PyTorch."""
    block = cross.form() if isinstance(cross, GaussianKernel) else cross
    lower = linalg.cholesky(kernel, what="the kernel matrix of the output layer")
    projected = linalg.solve_lower(lower, block)
    return RowSums(projected @ projected.mT, projected @ targets)


def _gaussian_sums(
    kernel: Tensor, inverse: Tensor, cross: GaussianKernel, targets: Tensor
) -> tuple[Tensor, Tensor]:
    K, H, left, right = flatten_all(kernel, inverse.detach(), cross.left, cross.right)
    gram, products, *_ = GaussianSums.apply(
        K, H, left, right, cross.log_height, cross.log_lengthscale, targets.contiguous()
    )
    return gram, products


def _sum(parts: Sequence[Tensor]) -> Tensor:
    return sum(parts[1:], start=parts[0])


class Sums(torch.autograd.Function):
    r""":math:`(K_{ii}, K_{it}) \mapsto (T, c) = (A A^\top, A y)`, :math:`A = H K_{it}`.

    With :math:`S = \bar T + \bar T^\top`, :math:`\bar A = S A + \bar c y^\top` and
    :math:`\bar K_{it} = H^\top \bar A`: one product of size :math:`P^2 N`, :math:`H^\top S` being
    formed first. As functions of :math:`K_{ii}`, :math:`T = H \Phi H^\top` and :math:`c = H \psi`
    with sums :math:`\Phi, \psi` that do not know :math:`H`, and :math:`dH = -\Phi_{1/2}(X) H`
    (:class:`~deepwishart.operations.cholesky.CholeskyInverse`), so that

    .. math:: M = -(S T + \bar c c^\top), \qquad
              \bar K_{ii} = H^\top \tfrac12 (\Phi_{1/2}(M) + \Phi_{1/2}(M)^\top) H

    takes products of size :math:`P^3` only. Forward, :math:`A` uses that :math:`H` is triangular
    and :math:`T` that it is symmetric: together about one :math:`P^2 N` product.
    """

    @staticmethod
    @known_signature
    def forward(
        kernel: Tensor, inverse: Tensor, cross: Tensor, targets: Tensor
    ) -> tuple[Tensor, ...]:
        return torch.ops.deepwishart.row_sums_forward(inverse, cross, targets)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, inverse, _, targets = inputs
        gram, products, projected = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(projected)
        ctx.save_for_backward(inverse, projected, targets, gram, products)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        *kept, gram, products = ctx.saved_tensors
        slopes = or_zero(gradients[0], gram), or_zero(gradients[1], products)
        kernel, cross = torch.ops.deepwishart.row_sums_backward(*kept, gram, products, *slopes)
        return kernel, None, cross, None


class GaussianSums(torch.autograd.Function):
    r""":class:`Sums` with :math:`K_{it} = h\, e^{-|x_i - y_t|^2/2\ell^2}` formed on the way;
    features and height receive the rest as in
    :class:`~deepwishart.operations.condition.GaussianCondition`."""

    @staticmethod
    @known_signature
    def forward(
        kernel: Tensor,
        inverse: Tensor,
        left: Tensor,
        right: Tensor,
        log_height: Tensor,
        log_lengthscale: Tensor,
        targets: Tensor,
    ) -> tuple[Tensor, ...]:
        return torch.ops.deepwishart.gaussian_row_sums_forward(
            inverse, left, right, log_height, log_lengthscale, targets
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, inverse, _, _, _, log_lengthscale, targets = inputs
        gram, products, cross, projected, a, b = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(cross, projected, a, b)
        kept = (inverse, cross, projected, a, b, log_lengthscale, targets, gram, products)
        ctx.save_for_backward(*kept)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        *kept, gram, products = ctx.saved_tensors
        slopes = or_zero(gradients[0], gram), or_zero(gradients[1], products)
        kernel, *others = torch.ops.deepwishart.gaussian_row_sums_backward(
            *kept, gram, products, *slopes
        )
        return kernel, None, *others, None


@fake("row_sums_forward")
def _(inverse: Tensor, cross: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    products = cross.new_empty(*cross.shape[:2], targets.shape[1])
    return torch.empty_like(inverse), products, torch.empty_like(cross)


@fake("row_sums_backward")
def _(inverse: Tensor, projected: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(inverse), torch.empty_like(projected)


@fake("gaussian_row_sums_forward")
def _(
    inverse: Tensor, left: Tensor, right: Tensor, height: Tensor, length: Tensor, targets: Tensor
) -> tuple[Tensor, ...]:
    batch, size, _ = left.shape
    products = left.new_empty(batch, size, targets.shape[1])
    blocks = (left.new_empty(batch, size, right.shape[1]) for _ in range(2))
    return torch.empty_like(inverse), products, *blocks, *map(torch.empty_like, (left, right))


@fake("gaussian_row_sums_backward")
def _(
    inverse: Tensor, cross: Tensor, projected: Tensor, a: Tensor, b: Tensor, *rest: Tensor
) -> tuple[Tensor, ...]:
    like = (torch.empty_like(t) for t in (inverse, a, b))
    return *like, a.new_empty(()), a.new_empty(())
