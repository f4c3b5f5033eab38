r"""The arc-cosine kernel of Cho and Saul (2009): infinitely many ReLU hidden units."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from deepwishart.kernels.dot_product import DotProduct
from deepwishart.kernels.elementary import safe_sqrt, with_slope


class ArcCosine(DotProduct):
    r"""The kernel :math:`k(x, y) = h \, |x| |y| \, J(\cos\theta)`, :math:`\theta` the angle between
    points.

    .. math:: J(\cos\theta) = (\sin\theta + (\pi - \theta) \cos\theta)/\pi.

    It is :math:`2 h \, E[\phi(w^T x) \phi(w^T y)]`, :math:`w \sim N(0, I)`, with a ReLU
    :math:`\phi`. The 2 makes :math:`J(1) = 1`, so that :math:`k(x, x) = h |x|^2`, and depth neither
    shrinks nor inflates the kernel. Norms and angles are those of the points with the bias feature
    appended (:class:`~deepwishart.kernels.dot_product.DotProduct`).

    Args:
        height: initial :math:`h`.
        bias: initial variance of the hidden units' biases; 0 for none, and then none is learned.
        dtype: of the parameters.

    >>> kernel = ArcCosine(bias=0.0)
    >>> kernel.square(torch.tensor([[3.0], [-2.0]])).tolist()
    [[9.0, 0.0], [0.0, 4.0]]
    """

    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        norms = safe_sqrt(self.biased(g_xx)) * safe_sqrt(self.biased(g_yy))
        nonzero = norms > 0
        cosine = torch.where(nonzero, self.biased(g_xy) / torch.where(nonzero, norms, 1.0), 0.0)
        return self.height * norms * correlation(cosine)

    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        r"""The kernel of a point with itself, :math:`h |x|^2`."""
        return self.height * self.biased(g_xx)


def correlation(cosine: Tensor) -> Tensor:
    r"""The function :math:`J(c) = (\sqrt{1 - c^2} + (\pi - \arccos c) \, c)/\pi`.

    Its slope is :math:`J'(c) = 1 - \arccos(c)/\pi`, finite everywhere, though each of its terms has
    an infinite slope at :math:`|c| = 1`. Cosines beyond 1, which are rounding, count as 1.
    """

    def value(cosine: Tensor) -> Tensor:
        c = cosine.clamp(-1.0, 1.0)
        # (1 - c)(1 + c) keeps digits near |c| = 1 that 1 - c^2 loses.
        sine = ((1.0 - c) * (1.0 + c)).sqrt()
        return (sine + (math.pi - c.arccos()) * c) / math.pi

    def times_slope(gradient: Tensor, cosine: Tensor) -> Tensor:
        inside = cosine.abs() < 1
        angle = torch.where(inside, cosine, 0.0).arccos()
        return gradient * torch.where(inside, 1.0 - angle / math.pi, (cosine > 0).to(cosine.dtype))

    return with_slope(value, times_slope, cosine)
