r"""The Matern 3/2 kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart.kernels.matern12 import matern12_profile
from deepwishart.kernels.stationary import Stationary


class Matern32(Stationary):
    r"""The kernel :math:`k(x, y) = h (1 + a) e^{-a}`, :math:`a = \sqrt{3R}`.

    :math:`R = \sum_\lambda (x_\lambda - y_\lambda)^2/\ell_\lambda^2` is the squared distance.

    Args:
        height: initial :math:`h`.
        lengthscale: initial :math:`\ell`.
        num_features: None for a single lengthscale, D for one per feature (ARD).
        dtype: of the parameters.
        device: of the parameters.

    Example:
        >>> round(Matern32().cross(torch.zeros(1, 1), torch.ones(1, 1)).item(), 4)
        0.4834
    """

    def profile(self, squared_distance: Tensor) -> Tensor:
        r"""The correlation :math:`(1 + \sqrt{3R}) \exp(-\sqrt{3R})`."""
        return matern32_profile(squared_distance)


def matern32_profile(squared_distance: Tensor) -> Tensor:
    r"""The function :math:`\rho_{3/2}(R) = (1 + a) e^{-a}`, :math:`a = \sqrt{3R}`.

    Its slope :math:`\rho_{3/2}'(R) = -\tfrac32 e^{-a} = -\tfrac32 \rho_{1/2}(3R)` is finite, though
    the chain rule through :math:`\sqrt{3R}` finds 0 times infinity at :math:`R = 0`.

    Example:
        >>> zero = torch.zeros((), requires_grad=True)
        >>> torch.autograd.grad(matern32_profile(zero), zero)
        (tensor(-1.5000),)
    """
    result: Tensor = _Profile.apply(squared_distance)
    return result


class _Profile(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(squared_distance: Tensor) -> Tensor:
        a = (3.0 * squared_distance).sqrt()
        return (1.0 + a) * (-a).exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (squared_distance,) = ctx.saved_tensors
        return -1.5 * grad_outputs[0] * matern12_profile(3.0 * squared_distance)
