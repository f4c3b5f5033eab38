r"""The squared exponential kernel as matrices: formed here, or later where it is consumed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart.numerics.linalg import flatten
from deepwishart.numerics.operation import compiled, operation

__all__ = ["Cross", "GaussianKernel", "formed", "gaussian_square"]


@dataclass(frozen=True)
class GaussianKernel:
    r"""The block :math:`K_{ij} = h\, e^{-|x_i - y_j|^2/2\ell^2}`, not yet formed.

    Operations on rows form it in cache, together with the products that consume it.

    Args:
        left: :math:`x`, ``(..., P, D)``.
        right: :math:`y`, ``(..., N, D)``.
        log_height: :math:`\log h`, a scalar.
        log_lengthscale: :math:`\log \ell`, a scalar.

    >>> zero = torch.tensor(0.0)
    >>> GaussianKernel(torch.zeros(1, 2), torch.zeros(3, 2), zero, zero).form()
    tensor([[1., 1., 1.]])
    """

    left: Tensor
    right: Tensor
    log_height: Tensor
    log_lengthscale: Tensor

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The arguments by which operations take it."""
        return self.left, self.right, self.log_height, self.log_lengthscale

    def form(self) -> Tensor:
        r"""The block, ``(..., P, N)``, from one product: with scaled features :math:`a, b`,

        .. math:: [a, \log h - |a|^2/2, 1] \cdot [b, 1, -|b|^2/2] = \log h - |a - b|^2/2,

        so that a product, a clamp and an exponential in place are all the work of that size.
        Features are centred first, on a constant: distances do not change, and the rounding
        that cancellation leaves is kept small.
        """
        centre = self.left.detach().mean(-2, keepdim=True)
        factor = (-self.log_lengthscale).exp()
        a, b = (self.left - centre) * factor, (self.right - centre) * factor
        row = (self.log_height - 0.5 * a.square().sum(-1)).unsqueeze(-1)
        column = -0.5 * b.square().sum(-1).unsqueeze(-1)
        a = torch.cat([a, row, torch.ones_like(row)], dim=-1)
        b = torch.cat([b, torch.ones_like(column), column], dim=-1)
        # With equal batch shapes matmul is one bmm whose result is no view, so that the
        # in-place exponential costs autograd no copy.
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
        exponent = torch.matmul(a, b.mT)
        # Only rounding can exceed the largest exponent: by little as a rule, by a lot in single
        # precision where features are far larger than their distances. Autograd need not know
        # that it is removed: the slopes are right as they are, and masks would double the cost.
        exponent.detach().clamp_(max=self.log_height.detach())
        return exponent.exp_()


#: The kernel matrix of inducing points and rows, possibly not yet formed.
Cross = Tensor | GaussianKernel


def formed(cross: Cross) -> Tensor:
    """The matrix itself."""
    return cross.form() if isinstance(cross, GaussianKernel) else cross


def gaussian_square(
    features: Tensor, log_height: Tensor, log_lengthscale: Tensor, *, jitter: float = 0.0
) -> Tensor:
    r""":math:`K_{ij} = h\, e^{-|x_i - x_j|^2/2\ell^2}`, exactly symmetric, with exactly
    :math:`h\,(1 + \text{jitter})` on the diagonal.

    Args:
        features: :math:`x`, ``(..., P, D)``.
        log_height: :math:`\log h`, a scalar.
        log_lengthscale: :math:`\log \ell`, a scalar.
        jitter: relative diagonal jitter.

    >>> gaussian_square(torch.zeros(2, 3), torch.tensor(0.0), torch.tensor(0.0))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return square(features, log_height, log_lengthscale, jitter)


def plain_square(
    features: Tensor, log_height: Tensor, log_lengthscale: Tensor, jitter: float
) -> Tensor:
    """The definition of :func:`gaussian_square`."""
    half = GaussianKernel(features, features, log_height - math.log(2.0), log_lengthscale).form()
    matrix = half + half.mT
    matrix.detach().diagonal(dim1=-2, dim2=-1).copy_(log_height.detach().exp())
    own = (jitter * log_height.exp()).expand(matrix.shape[:-1])
    return matrix + torch.diag_embed(own)


square = operation(plain_square)


@compiled(plain_square)
def _(features: Tensor, log_height: Tensor, log_lengthscale: Tensor, jitter: float) -> Tensor:
    kernel = GaussianSquare.apply(flatten(features), log_height, log_lengthscale, jitter)
    return kernel.reshape(*features.shape[:-1], features.shape[-2])


class GaussianSquare(torch.autograd.Function):
    r"""With :math:`a = x/\ell, b = y/\ell` and :math:`\bar E = \bar K \odot K` the gradient of the
    exponent of :math:`K_{it} = h\, e^{-|x_i - y_t|^2/2\ell^2}`

    .. math:: \bar a_i = \sum_t \bar E_{it} (b_t - a_i), \quad
              \bar b_t = \sum_i \bar E_{it} (a_i - b_t), \quad
              \overline{\log h} = \sum_{it} \bar E_{it}, \quad
              \overline{\log \ell} = -\sum_i a_i^\top \bar a_i - \sum_t b_t^\top \bar b_t,

    the last because the exponent is homogeneous of degree two in the features. Here :math:`y` is
    :math:`x`, which receives both.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, *options: Any) -> Tensor:
        kernel, scaled = torch.ops.deepwishart.gaussian_square_forward(features, *options)
        ctx.save_for_backward(scaled, kernel, *options[:2])
        found: Tensor = kernel
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        found = torch.ops.deepwishart.gaussian_square_backward(
            *ctx.saved_tensors, gradient.contiguous()
        )
        return *found, None
