r"""The squared exponential kernel, the one that the paper's experiments use."""

from __future__ import annotations

import torch
from torch import Tensor

from deepwishart import linalg
from deepwishart.kernels.stationary import Stationary


class SquaredExponential(Stationary):
    r"""The kernel :math:`k(x, y) = h \exp(-R/2)`.

    :math:`R = \sum_\lambda (x_\lambda - y_\lambda)^2/\ell_\lambda^2` is the squared distance.

    Args:
        height: initial :math:`h`.
        lengthscale: initial :math:`\ell`.
        num_features: None for a single lengthscale, D for one per feature (ARD).
        dtype: of the parameters.
        device: of the parameters.

    Example:
        >>> kernel = SquaredExponential(height=2.0)
        >>> kernel.cross(torch.tensor([[0.0]]), torch.tensor([[0.0], [2.0]])).tolist()[0]
        [2.0, 0.27067...]
    """

    def profile(self, squared_distance: Tensor) -> Tensor:
        r"""The correlation :math:`\exp(-R/2)`."""
        return (-0.5 * squared_distance).exp()

    def cross(self, first: Tensor, second: Tensor) -> Tensor:
        r"""The matrix :math:`k(x_i, y_j)`, (..., P, D) and (..., N, D) to (..., P, N)."""
        return self.lazy_cross(first, second).form()

    def lazy_cross(self, first: Tensor, second: Tensor) -> linalg.GaussianKernel:
        """The same, not yet formed."""
        left, right = self.prepare(first), self.prepare(second)
        return linalg.GaussianKernel(left, right, self.log_height, self._log_common_lengthscale)

    def square(self, features: Tensor) -> Tensor:
        r"""The matrix :math:`k(f_i, f_j)`, (..., P, D) to (..., P, P).

        This matrix is factorised, so it is made exactly symmetric, no entry exceeds the height, and
        the diagonal is the height.
        """
        return self.jittered_square(features, 0.0)

    def jittered_square(self, features: Tensor, jitter: float) -> Tensor:
        """The same with ``jitter`` times the height added to the diagonal, in one operation."""
        return linalg.gaussian_square(
            self.prepare(features), self.log_height, self._log_common_lengthscale, jitter=jitter
        )

    @property
    def _log_common_lengthscale(self) -> Tensor:
        """What is left to divide by after :meth:`prepare`."""
        if self.needs_features:
            return torch.zeros_like(self.log_height)
        return self.log_lengthscale
