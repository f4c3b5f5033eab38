r"""The squared exponential kernel, the one that the paper's experiments use."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from deepwishart.kernels.stationary import Stationary
from deepwishart.numerics.gaussian import GaussianKernel, gaussian_square


class SquaredExponential(Stationary):
    r"""The kernel :math:`k(x, y) = h \exp(-R/2)`.

    :math:`R = \sum_\lambda (x_\lambda - y_\lambda)^2/\ell_\lambda^2` is the squared distance.

    The arguments are those of :class:`Stationary`.

    >>> kernel = SquaredExponential(height=2.0)
    >>> kernel.cross(torch.tensor([[0.0]]), torch.tensor([[0.0], [2.0]])).tolist()[0]
    [2.0, 0.27067...]

    Its matrices are made in one operation each, without the steps of the base class.
    """

    def profile(self, squared_distance: Tensor) -> Tensor:
        r"""The correlation :math:`\exp(-R/2)`."""
        return (-0.5 * squared_distance).exp()

    def cross(self, first: Tensor, second: Tensor) -> Tensor:
        return self.lazy_cross(first, second).form()

    def lazy_cross(self, first: Tensor, second: Tensor, variance: float = 1.0) -> GaussianKernel:
        left, right = self.prepare(first), self.prepare(second)
        return GaussianKernel(left, right, *self._log_scales(variance))

    def square(self, features: Tensor) -> Tensor:
        return self.jittered_square(features)

    def jittered_square(
        self, features: Tensor, jitter: float = 0.0, variance: float = 1.0
    ) -> Tensor:
        scales = self._log_scales(variance)
        return gaussian_square(self.prepare(features), *scales, jitter=jitter)

    def _log_scales(self, variance: float) -> tuple[Tensor, Tensor]:
        """Logarithms of the height, ``variance`` included, and of what is left to divide by after
        :meth:`prepare`."""
        height = self.log_height if variance == 1.0 else self.log_height + math.log(variance)
        return height, torch.zeros_like(height) if self.needs_features else self.log_lengthscale
