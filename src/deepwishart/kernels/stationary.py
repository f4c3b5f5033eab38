r"""Kernels that depend on the points through their distance alone: what they share, and each of
them. Up to scale, the profile of a Matern kernel is the slope of the next smoother one."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn

from deepwishart._support.arguments import whole_number
from deepwishart._support.parameters import log_parameter
from deepwishart.kernels.base import Kernel
from deepwishart.kernels.elementary import safe_sqrt, with_slope
from deepwishart.kernels.points import Inducing, Points, Rows, inner_products
from deepwishart.numerics.gaussian import Cross, GaussianKernel, gaussian_square


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
        self.isotropic = num_features is None and num_inputs is None  # one lengthscale for all
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
        if self.isotropic:
            distance = distance / self.lengthscale.square()
        return self.height * self.profile(distance)

    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        return self.height * torch.ones_like(g_xx)

    def prepare(self, features: Tensor) -> Tensor:
        r"""With ARD or inputs, columns divided by their lengthscales; else features as they are."""
        if self.isotropic:
            return features
        columns, inputs = features.shape[-1], self.num_inputs or 0
        if columns <= inputs or self.num_features not in (None, columns):
            raise ValueError(
                f"{type(self).__name__} was built with num_features={self.num_features}, "
                f"num_inputs={self.num_inputs}, but was given points of shape "
                f"{tuple(features.shape)}, whose last dimension differs: features come first, "
                "inputs after them."
            )
        if self.log_input_lengthscale is None:
            return features / self.lengthscale
        logarithms = [self.log_lengthscale.expand(columns - inputs), self.log_input_lengthscale]
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
            return (self.height * variance).expand(points.shape[:-1])
        return super().diagonal(points, variance=variance)


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
        return height, self.log_lengthscale if self.isotropic else torch.zeros_like(height)


class Matern12(Stationary):
    r"""The exponential kernel :math:`k(x, y) = h e^{-a}`, :math:`a = \sqrt R`.

    It has a cusp where points coincide; the gradient there is taken to be 0. :math:`R` and the
    arguments are those of :class:`Stationary`.

    >>> round(Matern12().cross(torch.zeros(1, 1), torch.ones(1, 1)).item(), 4)
    0.3679
    """

    @staticmethod
    def profile(squared_distance: Tensor) -> Tensor:
        r"""The function :math:`\rho_{1/2}(R) = \exp(-\sqrt R)`."""
        return (-safe_sqrt(squared_distance)).exp()


class Matern32(Stationary):
    r"""The kernel :math:`k(x, y) = h (1 + a) e^{-a}`, :math:`a = \sqrt{3R}`.

    :math:`R` and the arguments are those of :class:`Stationary`.

    >>> round(Matern32().cross(torch.zeros(1, 1), torch.ones(1, 1)).item(), 4)
    0.4834
    """

    @staticmethod
    def profile(squared_distance: Tensor) -> Tensor:
        r"""The slope :math:`\rho_{3/2}'(R) = -\tfrac32 e^{-a} = -\tfrac32 \rho_{1/2}(3R)` is
        finite; the chain rule through :math:`\sqrt{3R}` finds 0 times infinity at :math:`R = 0`."""

        def value(R: Tensor) -> Tensor:
            a = (3.0 * R).sqrt()
            return (1.0 + a) * (-a).exp()

        def times_slope(gradient: Tensor, R: Tensor) -> Tensor:
            return -1.5 * gradient * Matern12.profile(3.0 * R)

        return with_slope(value, times_slope, squared_distance)


class Matern52(Stationary):
    r"""The kernel :math:`k(x, y) = h (1 + a + a^2/3) e^{-a}`, :math:`a = \sqrt{5R}`.

    :math:`R` and the arguments are those of :class:`Stationary`.

    >>> round(Matern52().cross(torch.zeros(1, 1), torch.ones(1, 1)).item(), 4)
    0.524
    """

    @staticmethod
    def profile(squared_distance: Tensor) -> Tensor:
        r"""The slope is :math:`\rho_{5/2}'(R) = -\tfrac56 (1 + a) e^{-a} = -\tfrac56
        \rho_{3/2}(5R/3)`, without the cancellation of the chain rule through :math:`\sqrt{5R}`."""

        def value(R: Tensor) -> Tensor:
            a = (5.0 * R).sqrt()
            return (1.0 + a + a.square() / 3.0) * (-a).exp()

        def times_slope(gradient: Tensor, R: Tensor) -> Tensor:
            return (-5.0 / 6.0) * gradient * Matern32.profile(R * (5.0 / 3.0))

        return with_slope(value, times_slope, squared_distance)


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


def squared_distance(g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
    r"""Distances from inner products, :math:`R_{ij} = G_{ii} - 2 G_{ij} + G_{jj}` (section 2.4),
    clamped at 0, below which only rounding can take it."""
    return (g_xx + g_yy).sub(g_xy, alpha=2.0).clamp(min=0.0)
