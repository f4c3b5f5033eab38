r"""Moments of rows given inducing points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart import native
from deepwishart.native.fakes import fake
from deepwishart.numerics.batches import or_zero
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

__all__ = ["condition"]


def condition(
    projection: Tensor, cross: Cross, diagonal: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Gaussian conditional of data points given whitened inducing weights.

    .. math:: A = H K_{it}, \qquad m_t = A^\top w, \qquad v_t = k_{tt} - \sum_p A_{pt}^2

    With :math:`H = L^{-1}` and :math:`w = L^{-1} F_i` this is the conditional of the paper's
    Eq. (Ft|Fi). A kernel without sample dimension (the first layer) is projected once and its
    weights are folded into columns.

    Args:
        projection: :math:`H`, ``(..., P, P)``.
        cross: :math:`K_{it}`, ``(..., P, N)``, possibly not yet formed.
        diagonal: :math:`k_{tt}`, ``(..., N)``.
        weights: :math:`w`, ``(..., P, D)``.

    Returns:
        mean ``(..., N, D)`` and variance ``(..., N)``; the variance is floored at the dtype's
        machine epsilon times :math:`k_{tt}`, and has no sample dimension where the kernel has none.

    >>> inverse = torch.tensor([[2.0]]).rsqrt()  # a single inducing point, K_ii = 2
    >>> K_it, k_tt, F_i = torch.tensor([[1.0]]), torch.tensor([2.0]), torch.tensor([[4.0]])
    >>> mean, variance = condition(inverse, K_it, k_tt, inverse @ F_i)
    >>> round(mean.item(), 4), round(variance.item(), 4)
    (2.0, 1.5)
    """
    shared = diagonal.ndim == 1 and weights.ndim > 2
    if shared:
        batch, width = weights.shape[:-2], weights.shape[-1]
        weights = weights.movedim(-2, 0).reshape(weights.shape[-2], -1)
    if native.operations(projection) is None:
        mean, squares = plain_moments(projection, cross, weights)
    else:
        mean, squares = _compiled_moments(projection, cross, weights)
        mean = mean.reshape(*diagonal.shape, -1)
        squares = squares.reshape(diagonal.shape)
    if shared:
        mean = mean.reshape(-1, *batch, width).movedim(0, -2)
    floor = torch.finfo(diagonal.dtype).eps * diagonal.detach()
    return mean, torch.maximum(diagonal - squares, floor)


def plain_moments(projection: Tensor, cross: Cross, weights: Tensor) -> tuple[Tensor, Tensor]:
    r""":math:`m` and :math:`\sum_p A_{pt}^2` in ordinary PyTorch."""
    projected = projection @ formed(cross)
    return projected.mT @ weights, projected.square().sum(-2)


def _compiled_moments(projection: Tensor, cross: Cross, weights: Tensor) -> tuple[Tensor, Tensor]:
    pieces = [Condition.apply(*block)[:2] for block in row_blocks(cross, projection, weights)]
    if len(pieces) == 1:
        return pieces[0]
    return torch.cat([m for m, _ in pieces], dim=1), torch.cat([s for _, s in pieces], dim=1)


class Condition(Operation):
    r""":math:`(H, K_{it}, w) \mapsto (m, s)`, :math:`s_t = \sum_p A_{pt}^2`. With incoming
    gradients :math:`\bar m, \bar s`:

    .. math:: \bar A = w \bar m^\top + 2 A \operatorname{diag}(\bar s), \quad
              \bar w = A \bar m, \quad \bar H = \bar A K_{it}^\top, \quad
              \bar K_{it} = H^\top \bar A

    One product of size :math:`P^2 N` forward and two backward; everything else is
    :math:`P N D`, folded into those three, or one pass over a :math:`P \times N` block. In double
    precision squares are computed from :math:`C = H^\top H` as :math:`k_t^\top C k_t`, which saves
    one of the two products of the gradient: :math:`\bar C = K_{it} \operatorname{diag}(\bar s)
    K_{it}^\top` and :math:`\bar H = 2 H \bar C + w (K_{it} \bar m)^\top`. It rounds by about
    :math:`\epsilon |C| k_{tt}`, which is what sets whole models of many inducing points apart from
    the plain path (docs, "Performance").

    The kernel matrix may be formed on the way, :math:`K_{it} = h\, e^{-|x_i - y_t|^2/2\ell^2}`.
    With :math:`a = x/\ell, b = y/\ell` and :math:`\bar E = \bar K_{it} \odot K_{it}` the gradient
    of the exponent, then

    .. math:: \bar a_i = \sum_t \bar E_{it} (b_t - a_i), \quad
              \bar b_t = \sum_i \bar E_{it} (a_i - b_t), \quad
              \overline{\log h} = \sum_{it} \bar E_{it}, \quad
              \overline{\log \ell} = -\sum_i a_i^\top \bar a_i - \sum_t b_t^\top \bar b_t,

    the last because the exponent is homogeneous of degree two in the features.
    """

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        return torch.ops.deepwishart.condition_forward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        mean, squares, product, *kept = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(product, *kept)
        cross, *features = kept_cross(inputs, kept)
        ctx.save_for_backward(*inputs[:2], cross, product, *features, mean, squares)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        *kept, mean, squares = ctx.saved_tensors
        projection, weights, *rest = torch.ops.deepwishart.condition_backward(
            *kept, or_zero(gradients[0], mean), or_zero(gradients[1], squares)
        )
        return projection, weights, *cross_gradients(rest, formed=kept[-1] is not None)


@fake("condition_forward")
def _(
    projection: Tensor, weights: Tensor, cross: Tensor | None, left: Any, right: Any, *scales: Any
) -> tuple[Tensor, ...]:
    batch, size, width = weights.shape
    kept = fake_cross(cross, left, right)
    rows = (kept[0] if cross is None else cross).shape[2]
    shapes = ((batch, rows, width), (batch, rows), (batch, size + width, rows))
    return *(weights.new_empty(shape) for shape in shapes), *kept


@fake("condition_backward")
def _(
    projection: Tensor, weights: Tensor, cross: Tensor, product: Tensor, a: Any, b: Any, *rest: Any
) -> tuple[Tensor, ...]:
    like = torch.empty_like(projection), torch.empty_like(weights)
    return *like, *fake_cross_gradients(cross, a, b)
