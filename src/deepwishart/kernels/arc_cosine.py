r"""The arc-cosine kernels of Cho and Saul (2009): infinitely many step or ReLU hidden units."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from deepwishart.kernels.dot_product import DotProduct
from deepwishart.kernels.elementary import safe_sqrt, with_slope


class ArcCosine(DotProduct):
    r"""The kernel :math:`k(x, y) = h \, (|x| |y|)^n \, J_n`, :math:`\theta` the angle between them.

    .. math::
        J_0 = 1 - \theta/\pi, \qquad J_1 = (\sin\theta + (\pi - \theta) \cos\theta)/\pi.

    It is :math:`2 h \, E[\phi(w^T x) \phi(w^T y)]`, :math:`w \sim N(0, I)`, with :math:`\phi` a
    step (:math:`n = 0`) or a ReLU (:math:`n = 1`). The 2 makes :math:`J_n(1) = 1`, so that
    :math:`k(x, x)` is :math:`h` for order 0 and :math:`h |x|^2` for order 1, and depth neither
    shrinks nor inflates the kernel. Norms and angles are those of the points with the bias feature
    appended (:class:`~deepwishart.kernels.dot_product.DotProduct`). Without bias, a zero vector
    counts as orthogonal to every other point.

    Args:
        order: 0 for steps, 1 for ReLUs.
        height: initial :math:`h`.
        bias: initial variance of the hidden units' biases; 0 for none, and then none is learned.
        dtype: of the parameters.

    >>> kernel = ArcCosine(order=1, bias=0.0)
    >>> kernel.square(torch.tensor([[3.0], [-2.0]])).tolist()
    [[9.0, 0.0], [0.0, 4.0]]
    """

    def __init__(
        self,
        order: int = 1,
        height: float = 1.0,
        bias: float = 1.0,
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        if order not in (0, 1):
            raise ValueError(f"ArcCosine has order 0 (steps) or 1 (ReLUs); got order={order}.")
        super().__init__(height, bias, dtype=dtype)
        self.order = order

    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        g_xx, g_xy, g_yy = self.biased(g_xx), self.biased(g_xy), self.biased(g_yy)
        norms = safe_sqrt(g_xx) * safe_sqrt(g_yy)
        nonzero = norms > 0
        # Two zero vectors coincide; one zero vector is orthogonal to the rest. This is what a
        # dimension reserved for zero vectors would give, so the matrix stays positive.
        same = (g_xx == g_yy).to(g_xy.dtype)
        cosine = torch.where(nonzero, g_xy / torch.where(nonzero, norms, 1.0), same)
        if self.order == 0:
            return self.height * step_correlation(cosine)
        return self.height * norms * relu_correlation(cosine)

    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        r"""The kernel of a point with itself, :math:`h |x|^{2n}`."""
        return self.height * (torch.ones_like(g_xx) if self.order == 0 else self.biased(g_xx))

    def extra_repr(self) -> str:
        return f"order={self.order}, {super().extra_repr()}"


def step_correlation(cosine: Tensor) -> Tensor:
    r"""The function :math:`J_0(c) = 1 - \arccos(c)/\pi`, with slope 0 at :math:`|c| = 1`.

    Cosines beyond 1, which are rounding, count as 1.
    """
    inside = cosine.abs() < 1
    angle = torch.where(inside, cosine, torch.zeros_like(cosine)).arccos()
    return torch.where(inside, 1.0 - angle / math.pi, (cosine > 0).to(cosine.dtype))


def relu_correlation(cosine: Tensor) -> Tensor:
    r"""The function :math:`J_1(c) = (\sqrt{1 - c^2} + (\pi - \arccos c) \, c)/\pi`.

    Its slope is :math:`J_1'(c) = J_0(c)`, finite everywhere, though each of its terms has an
    infinite slope at :math:`|c| = 1`.
    """

    def value(cosine: Tensor) -> Tensor:
        c = cosine.clamp(-1.0, 1.0)
        # (1 - c)(1 + c) keeps digits near |c| = 1 that 1 - c^2 loses.
        sine = ((1.0 - c) * (1.0 + c)).sqrt()
        return (sine + (math.pi - c.arccos()) * c) / math.pi

    return with_slope(value, lambda g, c: g * step_correlation(c), cosine)
