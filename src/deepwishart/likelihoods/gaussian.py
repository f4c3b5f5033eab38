"""The Gaussian likelihood with learned noise."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Normal

from deepwishart._support.parameters import KERNEL_LOGARITHM, Declarations, log_parameter
from deepwishart.likelihoods.base import Likelihood, Mixture

__all__ = ["Gaussian"]


class Gaussian(Likelihood):
    r""":math:`p(y \mid f) = \prod_d \mathcal N(y_d; f_d, \sigma_d^2)`, one noise per output column.

    Args:
        num_outputs: number of target columns.
        noise: initial noise *variance* :math:`\sigma^2`.

    >>> likelihood = Gaussian(1, noise=0.5)
    >>> y, mean, variance = torch.zeros(3, 1), torch.zeros(3, 1), torch.zeros(3, 1)
    >>> likelihood.expected_log_prob(y, mean, variance).shape
    torch.Size([3])
    """

    declares: ClassVar[Declarations] = {"*": KERNEL_LOGARITHM}

    def __init__(self, num_outputs: int = 1, noise: float = 0.1) -> None:
        super().__init__(num_outputs)
        self.log_noise = log_parameter("noise", noise, self.num_outputs, dtype=torch.float64)

    @property
    def noise(self) -> Tensor:
        r"""Noise variance :math:`\sigma^2`, ``(D,)``."""
        return self.log_noise.exp()

    def distribution(self, latents: Tensor) -> Normal:
        return Normal(latents, (0.5 * self.log_noise).exp().expand_as(latents), validate_args=False)

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        r""":math:`\log\mathcal N(y; m, \sigma^2) - v / 2\sigma^2`, summed over output columns."""
        squares = (y - mean).square() + variance
        terms = squares * (-0.5 * (-self.log_noise).exp())
        return terms.sum(-1) - 0.5 * (self.log_noise + math.log(2 * math.pi)).sum()

    def curvature(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        r""":math:`1 / \sigma^2`."""
        return (-self.log_noise).exp().expand_as(mean)

    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        r""":math:`\mathcal N(m, v + \sigma^2)`."""
        deviation = (variance + self.noise).sqrt().expand_as(mean)
        one = Normal(mean.unsqueeze(0), deviation.unsqueeze(0), validate_args=False)
        return Mixture(one, mean.new_zeros(1))

    def noise_level(self) -> float:
        return float(self.noise.detach().sqrt().mean())
