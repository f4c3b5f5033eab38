r"""The Matern kernels. Up to scale, the profile of each is the slope of the next smoother one."""

from __future__ import annotations

from torch import Tensor

from deepwishart.kernels.elementary import safe_sqrt, with_slope
from deepwishart.kernels.stationary import Stationary


class Matern12(Stationary):
    r"""The exponential kernel :math:`k(x, y) = h e^{-a}`, :math:`a = \sqrt R`.

    It has a cusp where points coincide; the gradient there is taken to be 0. :math:`R` and the
    arguments are those of :class:`Stationary`.

    >>> import torch
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

    >>> import torch
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

    >>> import torch
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
