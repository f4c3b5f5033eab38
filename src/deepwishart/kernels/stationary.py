r"""Kernels that depend on the points through their distance alone."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from deepwishart._support.arguments import whole_number
from deepwishart._support.parameters import log_parameter
from deepwishart.kernels.base import Kernel
from deepwishart.kernels.points import Inducing, Points, Rows, inner_products
from deepwishart.numerics.gaussian import Cross


class Stationary(Kernel):
    r"""An isotropic or ARD kernel :math:`k(x, y) = h \, \rho(R)`, :math:`\rho(0) = 1`.

    :math:`R = \sum_\lambda (x_\lambda - y_\lambda)^2/\ell_\lambda^2` is the squared distance,
    :math:`h` the height. A subclass states the profile :math:`\rho` and no more.

    With ``num_inputs`` the points are features of a layer, with one lengthscale, joined to inputs,
    with a lengthscale each: :math:`k([f, x], [g, y]) = h \, \rho(|f - g|^2/\ell^2) \,
    \rho(\sum_d (x_d - y_d)^2/\ell_d^2)`.

    Args:
        height: initial :math:`h`, the kernel of a point with itself.
        lengthscale: initial :math:`\ell`, the same for every feature.
        num_features: None for a single lengthscale, D for one per feature (ARD).
        num_inputs: number of columns, the last ones, that are inputs beside the features, with
            lengthscales that start at 1; None for features alone.
        dtype: of the parameters.

    >>> class Cauchy(Stationary):
    ...     def profile(self, squared_distance):
    ...         return 1 / (1 + squared_distance)
    >>> Cauchy().cross(torch.tensor([[0.0]]), torch.tensor([[1.0]]))
    tensor([[0.5000]], grad_fn=<MulBackward0>)
    >>> Cauchy(num_inputs=1).cross(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([[0.2500]], grad_fn=<MulBackward0>)
    """

    log_input_lengthscale: nn.Parameter | None

    def __init__(
        self,
        height: float = 1.0,
        lengthscale: float = 1.0,
        num_features: int | None = None,
        *,
        num_inputs: int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if num_features is not None:
            num_features = whole_number("num_features", num_features, also="None or ")
        if num_inputs is not None:
            num_inputs = whole_number("num_inputs", num_inputs, also="None or ")
            if num_features is not None:
                raise ValueError(
                    f"{type(self).__name__} has one lengthscale for the features beside "
                    f"num_inputs={num_inputs} inputs: leave num_features=None."
                )
        self.num_features, self.num_inputs = num_features, num_inputs
        self.log_height = log_parameter("height", height, dtype=dtype)
        self.log_lengthscale = log_parameter("lengthscale", lengthscale, num_features, dtype=dtype)
        self.log_input_lengthscale = None
        if num_inputs is not None:
            self.log_input_lengthscale = log_parameter("lengthscale", 1.0, num_inputs, dtype=dtype)

    @abstractmethod
    def profile(self, squared_distance: Tensor) -> Tensor:
        r"""The correlation :math:`\rho(R)` at scaled squared distances :math:`R \ge 0`."""

    @property
    def height(self) -> Tensor:
        """The kernel of a point with itself, a scalar."""
        return self.log_height.exp()

    @property
    def lengthscale(self) -> Tensor:
        """The lengthscale of the features, a scalar, or (D,) with ARD."""
        return self.log_lengthscale.exp()

    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        r"""The kernel :math:`h \rho(R)` with :math:`R` from inner products, entry by entry."""
        distance = squared_distance(g_xx, g_xy, g_yy)
        if not self.needs_features:
            distance = distance / self.lengthscale.square()
        return self.height * self.profile(distance)

    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        return self.height * torch.ones_like(g_xx)

    def prepare(self, features: Tensor) -> Tensor:
        r"""With ARD or inputs, columns divided by their lengthscales; else features as they are."""
        if self.log_input_lengthscale is None:
            return self._checked(features) / self.lengthscale if self.needs_features else features
        alone = features.shape[-1] - len(self.log_input_lengthscale)
        if alone < 1:
            raise ValueError(
                f"{type(self).__name__} was built with num_inputs={self.num_inputs}, but was given "
                f"points of shape {tuple(features.shape)}: features come first, inputs after them."
            )
        logarithms = [self.log_lengthscale.expand(alone), self.log_input_lengthscale]
        return features / torch.cat(logarithms).exp()

    def cross(self, first: Inducing, second: Rows, *, variance: float = 1.0) -> Cross:
        if not (isinstance(first, Tensor) and isinstance(second, Tensor)):
            return super().cross(first, second, variance=variance)
        # Distances from the mean row, a constant, are the same, and the terms of
        # G_ii - 2 G_ij + G_jj small, so that cancellation leaves little rounding.
        centre = first.detach().mean(-2, keepdim=True)
        first, second = first - centre, second - centre
        if self.num_inputs is None:
            return super().cross(first, second, variance=variance)
        sides = (
            self.prepare(side).tensor_split([-self.num_inputs], -1) for side in (first, second)
        )
        distances = (squared_distance(*inner_products(*pair)) for pair in zip(*sides, strict=True))
        of_features, of_inputs = (self.profile(distance) for distance in distances)
        return self.height * of_features * of_inputs * variance

    def diagonal(self, points: Points, *, variance: float = 1.0) -> Tensor:
        if isinstance(points, Tensor):
            return (self.height * variance).expand(self._checked(points).shape[:-1])
        return super().diagonal(points, variance=variance)


def squared_distance(g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
    r"""Distances from inner products, :math:`R_{ij} = G_{ii} - 2 G_{ij} + G_{jj}` (section 2.4),
    clamped at 0, below which only rounding can take it."""
    return (g_xx + g_yy).sub(g_xy, alpha=2.0).clamp(min=0.0)
