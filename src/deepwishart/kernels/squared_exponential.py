r"""The squared exponential kernel, the one that the paper's experiments use."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from deepwishart.kernels.points import Inducing, Points, Rows
from deepwishart.kernels.stationary import Stationary
from deepwishart.numerics.gaussian import Cross, GaussianKernel, gaussian_square


class SquaredExponential(Stationary):
    r"""The kernel :math:`k(x, y) = h \exp(-R/2)`.

    :math:`R = \sum_\lambda (x_\lambda - y_\lambda)^2/\ell_\lambda^2` is the squared distance.

    The arguments are those of :class:`Stationary`.

    >>> kernel = SquaredExponential(height=2.0)
    >>> kernel.cross(torch.tensor([[0.0]]), torch.tensor([[0.0], [2.0]])).form().tolist()[0]
    [2.0, 0.27067...]

    Matrices of features are made in one operation each, without the steps of the base class, and
    blocks between two sets of them not before they are needed. That includes inputs beside the
    features: the product of two such correlations is one, of the summed distance.
    """

    def profile(self, squared_distance: Tensor) -> Tensor:
        r"""The correlation :math:`\exp(-R/2)`."""
        return (-0.5 * squared_distance).exp()

    def cross(self, first: Inducing, second: Rows, *, variance: float = 1.0) -> Cross:
        if not (isinstance(first, Tensor) and isinstance(second, Tensor)):
            return super().cross(first, second, variance=variance)
        left, right = self.prepare(first), self.prepare(second)
        return GaussianKernel(left, right, *self._log_scales(variance))

    def square(self, points: Points, *, jitter: float = 0.0, variance: float = 1.0) -> Tensor:
        if not isinstance(points, Tensor):
            return super().square(points, jitter=jitter, variance=variance)
        return gaussian_square(self.prepare(points), *self._log_scales(variance), jitter=jitter)

    def _log_scales(self, variance: float) -> tuple[Tensor, Tensor]:
        """Logarithms of the height, ``variance`` included, and of what is left to divide by after
        :meth:`prepare`."""
        height = self.log_height if variance == 1.0 else self.log_height + math.log(variance)
        return height, torch.zeros_like(height) if self.needs_features else self.log_lengthscale
