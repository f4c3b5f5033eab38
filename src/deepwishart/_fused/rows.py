"""Rows of a layer given its inducing points; kernel matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart import _native

__all__ = ["Condition", "GaussianCondition", "GaussianSample", "GaussianSquare"]


class Condition(torch.autograd.Function):
    r""":math:`(H, K_{it}, w) \mapsto (m, s)` with :math:`A = H K_{it}`, :math:`m = A^\top w`,
    :math:`s_t = \sum_p A_{pt}^2`.

    With incoming gradients :math:`\bar m, \bar s`:

    .. math:: \bar A = w \bar m^\top + 2 A \operatorname{diag}(\bar s), \quad
              \bar w = A \bar m, \quad \bar H = \bar A K_{it}^\top, \quad
              \bar K_{it} = H^\top \bar A

    One product of size :math:`P^2 N` forward and two backward; everything else is
    :math:`P N D`, folded into those three by the native code, or one pass over a
    :math:`P \times N` block. In double precision the native code computes squares from
    :math:`C = H^\top H` as :math:`k_t^\top C k_t`, which saves one of the two products of the
    gradient: :math:`\bar C = K_{it} \operatorname{diag}(\bar s) K_{it}^\top` and
    :math:`\bar H = 2 H \bar C + w (K_{it} \bar m)^\top`.
    """

    @staticmethod
    def forward(
        ctx: Any, projection: Tensor, cross: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        native = _native.operations(projection, cross, weights)
        if native is not None:
            projection, cross = projection.contiguous(), cross.contiguous()
            weights = weights.contiguous()
            mean, squares, projected = native.condition_forward(projection, cross, weights)
        else:
            projected = torch.bmm(projection, cross)
            mean = torch.bmm(projected.mT, weights)
            squares = torch.mul(projected, projected).sum(-2)
        ctx.save_for_backward(projection, cross, weights, projected)
        return mean, squares

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_mean: Tensor, grad_squares: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        projection, cross, weights, projected = ctx.saved_tensors
        native = _native.operations(cross)
        if native is not None:
            return native.condition_backward(
                projection,
                cross,
                weights,
                projected,
                grad_mean.contiguous(),
                grad_squares.contiguous(),
            )
        grad_weights = torch.bmm(projected, grad_mean)
        grad_projected = projected * (2.0 * grad_squares).unsqueeze(-2)
        grad_projected.baddbmm_(weights, grad_mean.mT)
        grad_projection = torch.bmm(grad_projected, cross.mT)
        grad_cross = torch.bmm(projection.mT, grad_projected)
        return grad_projection, grad_cross, grad_weights


class GaussianCondition(torch.autograd.Function):
    r""":class:`Condition` with :math:`K_{it} = h\, e^{-|x_i - y_t|^2/2\ell^2}` formed on the way;
    native only.

    With :math:`a = x/\ell, b = y/\ell` and :math:`\bar E = \bar K_{it} \odot K_{it}` the gradient
    of the exponent,

    .. math:: \bar a_i = \sum_t \bar E_{it} (b_t - a_i), \quad
              \bar b_t = \sum_i \bar E_{it} (a_i - b_t), \quad
              \overline{\log h} = \sum_{it} \bar E_{it}, \quad
              \overline{\log \ell} = -\sum_i a_i^\top \bar a_i - \sum_t b_t^\top \bar b_t,

    the last because the exponent is homogeneous of degree two in the features.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projection: Tensor,
        left: Tensor,
        right: Tensor,
        log_height: Tensor,
        log_lengthscale: Tensor,
        weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        native = _native.operations(projection)
        projection, left, right, weights = (
            t.contiguous() for t in (projection, left, right, weights)
        )
        ctx.log_lengthscale = log_lengthscale.item()
        mean, squares, cross, projected, a, b = native.gaussian_condition_forward(  # type: ignore[union-attr]
            projection, left, right, log_height.item(), ctx.log_lengthscale, weights
        )
        ctx.save_for_backward(projection, a, b, weights, cross, projected)
        return mean, squares

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_mean: Tensor, grad_squares: Tensor) -> tuple[Tensor | None, ...]:
        native = _native.operations(grad_mean)
        gradients: tuple[Tensor, ...] = native.gaussian_condition_backward(  # type: ignore[union-attr]
            *ctx.saved_tensors,
            ctx.log_lengthscale,
            grad_mean.contiguous(),
            grad_squares.contiguous(),
        )
        return gradients


class GaussianSample(torch.autograd.Function):
    r"""A draw of rows given inducing points, with :math:`K_{it} = h\, e^{-|x_i - y_t|^2/2\ell^2}`
    formed on the way; native only.

    .. math:: F_t = m_t + d_t\, \epsilon_t, \quad m_t = k_t^\top K_{ii}^{-1} F_i, \quad
              d_t^2 = s \max(h - s_t, \text{floor}), \quad s_t = k_t^\top K_{ii}^{-1} k_t

    The gradient goes to :math:`K_{ii}` and :math:`F_i` directly, past any factor. With
    :math:`B = K_{ii}^{-1} K_{it}`, :math:`\bar m = \bar F_t` and
    :math:`\bar s_t = -\tfrac{s}{2 d_t}\, \bar F_t^\top \epsilon_t` (0 where floored),

    .. math:: \bar K_{it} = 2 B \operatorname{diag}(\bar s) + K_{ii}^{-1} F_i\, \bar m^\top, \quad
              \bar F_i = B \bar m, \quad
              \bar K_{ii} = -\tfrac12 \big(\bar K_{it} B^\top
              + \bar F_i\, (K_{ii}^{-1} F_i)^\top\big),

    which is symmetric: one product of size :math:`P^2 N` forward and one backward (two in single
    precision, where :math:`K_{ii}^{-1}` is too inexact and :math:`L^{-1}` is used), and none of
    size :math:`P^3`. Features and height receive the rest as in :class:`GaussianCondition`.
    ``form`` is :math:`K_{ii}^{-1}`, or :math:`L^{-1}` in single precision, and ``solved`` is
    :math:`K_{ii}^{-1} F_i`; both are taken as known functions of ``kernel`` and ``root``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        kernel: Tensor,
        root: Tensor,
        left: Tensor,
        right: Tensor,
        log_height: Tensor,
        log_lengthscale: Tensor,
        form: Tensor,
        solved: Tensor,
        noise: Tensor,
        scale: float,
    ) -> Tensor:
        native = _native.operations(form)
        left, right, solved, noise = (t.contiguous() for t in (left, right, solved, noise))
        scalars = (log_height.item(), log_lengthscale.item())
        sample, cross, product, a, b, deviation = native.gaussian_sample_forward(  # type: ignore[union-attr]
            form, solved, left, right, *scalars, noise, scale
        )
        ctx.scalars = (*scalars, scale)
        ctx.save_for_backward(form, solved, a, b, cross, product, noise, deviation)
        return sample

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        native = _native.operations(grad)
        gradients = native.gaussian_sample_backward(  # type: ignore[union-attr]
            *ctx.saved_tensors, *ctx.scalars, grad.contiguous()
        )
        return *gradients, None, None, None, None


class GaussianSquare(torch.autograd.Function):
    r""":math:`K_{ij} = h\, e^{-|x_i - x_j|^2/2\ell^2} + \epsilon h\, \delta_{ij}`, exactly
    symmetric; native only. The gradient is that of :class:`GaussianCondition` with both arguments
    one, jitter being a part of the diagonal that no feature changes."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, log_height: Tensor, log_lengthscale: Tensor, jitter: float
    ) -> Tensor:
        native = _native.operations(features)
        ctx.log_lengthscale = log_lengthscale.item()
        kernel, scaled = native.gaussian_square_forward(  # type: ignore[union-attr]
            features.contiguous(), log_height.item(), ctx.log_lengthscale, jitter
        )
        ctx.save_for_backward(scaled, kernel)
        return kernel

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_kernel: Tensor) -> tuple[Tensor | None, ...]:
        native = _native.operations(grad_kernel)
        gradients = native.gaussian_square_backward(  # type: ignore[union-attr]
            *ctx.saved_tensors, ctx.log_lengthscale, grad_kernel.contiguous()
        )
        return *gradients, None
