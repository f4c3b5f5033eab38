r"""The rational quadratic kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from deepwishart._support.parameters import log_parameter
from deepwishart.kernels.stationary import Stationary


class RationalQuadratic(Stationary):
    r"""The kernel :math:`k(x, y) = h \left(1 + \frac{R}{2\alpha}\right)^{-\alpha}`.

    :math:`R = \sum_\lambda (x_\lambda - y_\lambda)^2/\ell_\lambda^2` is the squared distance.
    A mixture of squared exponentials over lengthscales, it becomes a single one as
    :math:`\alpha \to \infty`.

    Args:
        alpha: initial :math:`\alpha`; small values mix widely different lengthscales.
        height, lengthscale, num_features, num_inputs, dtype: as in :class:`Stationary`.

    >>> kernel = RationalQuadratic(alpha=1.0)
    >>> round(kernel.cross(torch.zeros(1, 1), torch.ones(1, 1)).item(), 4)
    0.6667
    """

    def __init__(
        self,
        alpha: float = 1.0,
        height: float = 1.0,
        lengthscale: float = 1.0,
        num_features: int | None = None,
        *,
        num_inputs: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(height, lengthscale, num_features, num_inputs=num_inputs, dtype=dtype)
        self.log_alpha = log_parameter("alpha", alpha, dtype=dtype)

    @property
    def alpha(self) -> Tensor:
        """The exponent, a scalar."""
        return self.log_alpha.exp()

    def profile(self, squared_distance: Tensor) -> Tensor:
        r"""The correlation :math:`(1 + R/(2\alpha))^{-\alpha}`."""
        # log1p keeps the digits of small distances when alpha is large.
        return (-self.alpha * torch.log1p(squared_distance / (2.0 * self.alpha))).exp()
