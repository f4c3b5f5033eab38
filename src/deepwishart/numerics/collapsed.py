r"""The sums over rows from which a Gaussian process with Gaussian noise is conditioned, and what
they say about it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart.numerics import linalg
from deepwishart.numerics.gaussian import (
    Cross,
    cross_gradient_shapes,
    cross_gradients,
    cross_shapes,
    formed_from,
    kept_cross,
    parts_of,
    row_blocks,
    row_pieces,
)
from deepwishart.numerics.operation import compiled, first_order, operation, or_zero, shapes

__all__ = ["explained", "row_sums"]


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
    return sums(kernel, inverse.detach(), targets, *parts_of(cross))


def plain_sums(
    kernel: Tensor,
    inverse: Tensor,
    targets: Tensor,
    cross: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    log_height: Tensor | None,
    log_lengthscale: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The definition of :func:`row_sums`."""
    lower = linalg.cholesky(kernel, what="the kernel matrix of the output layer")
    block = formed_from(cross, left, right, log_height, log_lengthscale)
    projected = linalg.solve_lower(lower, block)
    return projected @ projected.mT, projected @ targets


sums = operation(plain_sums)


@compiled(plain_sums)
def _(
    kernel: Tensor, inverse: Tensor, targets: Tensor, *parts: Tensor | None
) -> tuple[Tensor, Tensor]:
    blocks = row_blocks(parts, kernel, inverse)
    found = [
        Sums.apply(K, H, y.contiguous(), *block)[:2]
        for (K, H, *block), y in zip(blocks, row_pieces(targets, dim=-2), strict=True)
    ]
    gram, products = (sum(pieces[1:], start=pieces[0]) for pieces in zip(*found, strict=True))
    sides = [side for side in (kernel, *parts[:3]) if side is not None]
    batch = torch.broadcast_shapes(*(side.shape[:-2] for side in sides))
    return gram.reshape(*batch, *gram.shape[1:]), products.reshape(*batch, *products.shape[1:])


class Sums(torch.autograd.Function):
    r""":math:`(K_{ii}, K_{it}) \mapsto (T, c) = (A A^\top, A y)`, :math:`A = H K_{it}`.

    With :math:`S = \bar T + \bar T^\top`, :math:`\bar A = S A + \bar c y^\top` and
    :math:`\bar K_{it} = H^\top \bar A`: one product of size :math:`P^2 N`, :math:`H^\top S` being
    formed first. As functions of :math:`K_{ii}`, :math:`T = H \Phi H^\top` and :math:`c = H \psi`
    with sums :math:`\Phi, \psi` that do not know :math:`H`, and :math:`dH = -\Phi_{1/2}(X) H`
    (:class:`~deepwishart.numerics.linalg.CholeskyInverse`), so that

    .. math:: M = -(S T + \bar c c^\top), \qquad
              \bar K_{ii} = H^\top \tfrac12 (\Phi_{1/2}(M) + \Phi_{1/2}(M)^\top) H

    takes products of size :math:`P^3` only. Forward, :math:`A` uses that :math:`H` is triangular
    and :math:`T` that it is symmetric: together about one :math:`P^2 N` product. A matrix
    :math:`K_{it}` that was formed on the way sends its gradient on as in
    :class:`~deepwishart.numerics.rows.Condition`.
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


@shapes("row_sums_forward")
def _(
    inverse: Tensor, targets: Tensor, cross: Tensor | None, left: Any, right: Any, *scales: Any
) -> tuple[Tensor, ...]:
    kept = cross_shapes(cross, left, right)
    projected = torch.empty_like(kept[0] if cross is None else cross)
    products = inverse.new_empty(*inverse.shape[:2], targets.shape[1])
    return torch.empty_like(inverse), products, projected, *kept


@shapes("row_sums_backward")
def _(
    inverse: Tensor, targets: Tensor, cross: Tensor, projected: Tensor, a: Any, b: Any, *rest: Any
) -> tuple[Tensor, ...]:
    return torch.empty_like(inverse), *cross_gradient_shapes(cross, a, b)


def explained(gram: Tensor, products: Tensor, noise: Tensor, *, what: str) -> Tensor:
    r"""How much the rows say about the outputs: with :math:`B = I + T/\sigma^2` and
    :math:`z = c/\sigma^2`,

    .. math:: -\tfrac12 \log|B| + \tfrac12 z^\top B^{-1} z.

    Args:
        gram: :math:`T = A A^\top`, ``(..., P, P)``.
        products: :math:`c = A y`, ``(..., P, D)``.
        noise: :math:`\sigma^2` of each column, ``(D,)``.
        what: how error messages call :math:`B`.

    Returns:
        ``(..., D)``.

    >>> one = torch.ones(1, 1)
    >>> explained(3.0 * one, 4.0 * one, torch.ones(1), what="B")  # log 4 and 16 / 4, halved
    tensor([1.3069])
    """
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    inner = gram.detach().unsqueeze(-3) / noise.detach()[:, None, None] + eye
    lower, inverse = linalg.factor(inner, what=what)
    return Explained.apply(gram, products, noise, lower, inverse)


class Explained(torch.autograd.Function):
    r"""With :math:`a = B^{-1} z`, the slope is :math:`-\tfrac12 (B^{-1} + a a^\top)` in :math:`B`
    and :math:`a` in :math:`z`; the factor :math:`L_B` and its inverse are known functions of
    :math:`B`. One product of size :math:`P^3`."""

    @staticmethod
    def forward(
        gram: Tensor, products: Tensor, noise: Tensor, lower: Tensor, inverse: Tensor
    ) -> Tensor:
        whitened = inverse @ (products / noise).mT.unsqueeze(-1)
        return 0.5 * (whitened.square().sum((-2, -1)) - linalg.log_det(lower))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        gram, products, noise, _, inverse = inputs
        ctx.save_for_backward(gram, products, noise, inverse)

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gram, products, noise, inverse = ctx.saved_tensors
        z = (products / noise).mT.unsqueeze(-1)
        a = inverse.mT @ (inverse @ z)  # (..., D, P, 1)
        to_inner = inverse.mT @ inverse
        to_inner = (to_inner + a @ a.mT) * (-0.5 * gradient / noise)[..., None, None]
        to_z = (gradient[..., None] / noise[:, None] * a.squeeze(-1)).mT
        along = (to_inner * gram.unsqueeze(-3)).sum((-2, -1)) + (to_z * products).sum(-2)
        to_noise = -(along / noise).reshape(-1, len(noise)).sum(0)
        return to_inner.sum(-3), to_z, to_noise, None, None
