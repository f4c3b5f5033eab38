r"""Kernels that depend on the points through their distance alone."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from deepwishart._support.arguments import whole_number
from deepwishart._support.parameters import log_parameter
from deepwishart.kernels.base import Kernel
from deepwishart.kernels.elementary import squared_distance


class Stationary(Kernel):
    r"""An isotropic or ARD kernel :math:`k(x, y) = h \, \rho(R)`, :math:`\rho(0) = 1`.

    :math:`R = \sum_\lambda (x_\lambda - y_\lambda)^2/\ell_\lambda^2` is the squared distance,
    :math:`h` the height. A subclass states the profile :math:`\rho` and no more.

    Args:
        height: initial :math:`h`, the kernel of a point with itself.
        lengthscale: initial :math:`\ell`, the same for every feature.
        num_features: None for a single lengthscale, D for one per feature (ARD).
        dtype: of the parameters.

    >>> class Cauchy(Stationary):
    ...     def profile(self, squared_distance):
    ...         return 1 / (1 + squared_distance)
    >>> Cauchy().cross(torch.tensor([[0.0]]), torch.tensor([[1.0]]))
    tensor([[0.5000]], grad_fn=<MulBackward0>)
    """

    def __init__(
        self,
        height: float = 1.0,
        lengthscale: float = 1.0,
        num_features: int | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if num_features is not None:
            num_features = whole_number("num_features", num_features, also="None or ")
        self.num_features = num_features
        self.log_height = log_parameter("height", height, dtype=dtype)
        self.log_lengthscale = log_parameter("lengthscale", lengthscale, num_features, dtype=dtype)

    @abstractmethod
    def profile(self, squared_distance: Tensor) -> Tensor:
        r"""The correlation :math:`\rho(R)` at scaled squared distances :math:`R \ge 0`."""

    @property
    def height(self) -> Tensor:
        """The kernel of a point with itself, a scalar."""
        return self.log_height.exp()

    @property
    def lengthscale(self) -> Tensor:
        """The lengthscale, a scalar, or (D,) with ARD."""
        return self.log_lengthscale.exp()

    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        r"""The kernel :math:`h \rho(R)` with :math:`R` from inner products, entry by entry."""
        distance = squared_distance(g_xx, g_xy, g_yy)
        if not self.needs_features:
            distance = distance / self.lengthscale.square()
        return self.height * self.profile(distance)

    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        return self.height * torch.ones_like(g_xx)

    def diagonal(self, features: Tensor) -> Tensor:
        return self.height.expand(self._checked(features).shape[:-1])

    def prepare(self, features: Tensor) -> Tensor:
        r"""With ARD, :math:`F_{i\lambda} / \ell_\lambda`; else the features as they are."""
        return self._checked(features) / self.lengthscale if self.needs_features else features

    def square(self, features: Tensor) -> Tensor:
        return super().square(features - centre_of(features))

    def cross(self, first: Tensor, second: Tensor) -> Tensor:
        centre = centre_of(first)
        return super().cross(first - centre, second - centre)


def centre_of(features: Tensor) -> Tensor:
    r"""The mean row, (..., P, D) to (..., 1, D), as a constant. Subtracting it changes neither
    distances nor gradients; it keeps the terms of :math:`G_{ii} - 2 G_{ij} + G_{jj}` small, and
    with them the rounding that cancellation leaves."""
    return features.detach().mean(-2, keepdim=True)
