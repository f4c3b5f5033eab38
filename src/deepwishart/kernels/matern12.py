r"""The Matern 1/2, or exponential, kernel."""

from __future__ import annotations

from torch import Tensor

from deepwishart.kernels.elementary import safe_sqrt
from deepwishart.kernels.stationary import Stationary


class Matern12(Stationary):
    r"""The kernel :math:`k(x, y) = h e^{-a}`, :math:`a = \sqrt R`.

    :math:`R = \sum_\lambda (x_\lambda - y_\lambda)^2/\ell_\lambda^2` is the squared distance.
    The kernel has a cusp where points coincide; the gradient there is taken to be 0.

    Args:
        height: initial :math:`h`.
        lengthscale: initial :math:`\ell`.
        num_features: None for a single lengthscale, D for one per feature (ARD).
        dtype: of the parameters.
        device: of the parameters.

    Example:
        >>> import torch
        >>> round(Matern12().cross(torch.zeros(1, 1), torch.ones(1, 1)).item(), 4)
        0.3679
    """

    def profile(self, squared_distance: Tensor) -> Tensor:
        r"""The correlation :math:`\exp(-\sqrt R)`."""
        return matern12_profile(squared_distance)


def matern12_profile(squared_distance: Tensor) -> Tensor:
    r"""The function :math:`\rho_{1/2}(R) = \exp(-\sqrt R)`.

    Example:
        >>> import torch
        >>> matern12_profile(torch.zeros(1))
        tensor([1.])
    """
    return (-safe_sqrt(squared_distance)).exp()
