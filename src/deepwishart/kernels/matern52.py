r"""The Matern 5/2 kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart.kernels.matern32 import matern32_profile
from deepwishart.kernels.stationary import Stationary


class Matern52(Stationary):
    r"""The kernel :math:`k(x, y) = h (1 + a + a^2/3) e^{-a}`, :math:`a = \sqrt{5R}`.

    :math:`R = \sum_\lambda (x_\lambda - y_\lambda)^2/\ell_\lambda^2` is the squared distance.

    Args:
        height: initial :math:`h`.
        lengthscale: initial :math:`\ell`.
        num_features: None for a single lengthscale, D for one per feature (ARD).
        dtype: of the parameters.
        device: of the parameters.

    Example:
        >>> round(Matern52().cross(torch.zeros(1, 1), torch.ones(1, 1)).item(), 4)
        0.524
    """

    def profile(self, squared_distance: Tensor) -> Tensor:
        r"""The correlation :math:`(1 + \sqrt{5R} + 5R/3) \exp(-\sqrt{5R})`."""
        return matern52_profile(squared_distance)


def matern52_profile(squared_distance: Tensor) -> Tensor:
    r"""The function :math:`\rho_{5/2}(R) = (1 + a + a^2/3) e^{-a}`, :math:`a = \sqrt{5R}`.

    Its slope is :math:`\rho_{5/2}'(R) = -\tfrac56 (1 + a) e^{-a} = -\tfrac56 \rho_{3/2}(5R/3)`,
    without the cancellation that the chain rule through :math:`\sqrt{5R}` suffers near 0.

    Example:
        >>> zero = torch.zeros((), requires_grad=True)
        >>> torch.autograd.grad(matern52_profile(zero), zero)
        (tensor(-0.8333),)
    """
    result: Tensor = _Profile.apply(squared_distance)
    return result


class _Profile(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(squared_distance: Tensor) -> Tensor:
        a = (5.0 * squared_distance).sqrt()
        return (1.0 + a + a.square() / 3.0) * (-a).exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (squared_distance,) = ctx.saved_tensors
        return (-5.0 / 6.0) * grad_outputs[0] * matern32_profile(squared_distance * (5.0 / 3.0))
