"""Gaussian noise whose variance depends on the inputs."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution, Normal

from deepwishart._support.parameters import log_parameter
from deepwishart.likelihoods.base import (
    LARGEST_LOG,
    Likelihood,
    Mixture,
    bounded_exp,
    gauss_hermite,
)

__all__ = ["HeteroscedasticGaussian"]


class HeteroscedasticGaussian(Likelihood):
    r""":math:`p(y \mid f, g) = \prod_d \mathcal N\big(y_d;\, f_d,\, \sigma_d^2 e^{g_d}\big)`: of
    :math:`2D` latent columns, the first half gives means and the second half log variances.

    Under Gaussian latents the expected log density is known,

    .. math:: \mathbb E \log p(y \mid f, g) = -\tfrac12 \sum_d \Big( \log 2\pi\sigma_d^2 + m_{g_d}
              + \frac{(y_d - m_{f_d})^2 + v_{f_d}}{\sigma_d^2}\, e^{v_{g_d}/2 - m_{g_d}} \Big),

    and so is the predictive distribution given :math:`g`, over which quadrature takes the mean.
    The two halves have kernels and posterior covariances of their own: noise usually changes more
    slowly than the function, and the data say less about it.

    Args:
        num_outputs: number of target columns D.
        noise: initial :math:`\sigma^2`, the noise variance where :math:`g = 0`.
        dtype: of the parameter; double precision by default.
        device: of the parameter.

    >>> likelihood = HeteroscedasticGaussian(1, noise=0.5)
    >>> mean, variance = torch.zeros(3, 2), torch.ones(3, 2)
    >>> likelihood.expected_log_prob(torch.zeros(3, 1), mean, variance).shape
    torch.Size([3])
    """

    num_nodes = 10  # log variances are known well enough for the mixture to be smooth

    def __init__(
        self,
        num_outputs: int = 1,
        noise: float = 0.1,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(num_outputs, num_latents=2 * num_outputs)
        self.log_noise = log_parameter("noise", noise, self.num_outputs, dtype=dtype, device=device)

    @property
    def latent_groups(self) -> tuple[int, ...]:
        return (self.num_outputs, self.num_outputs)

    def distribution(self, latents: Tensor) -> Distribution:
        f, g = latents.chunk(2, dim=-1)
        return Normal(f, (0.5 * self._log_variance(g)).exp(), validate_args=False)

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        squares, log_variance = self._expected_squares(y, mean, variance)
        return -0.5 * (squares + log_variance + math.log(2 * math.pi)).sum(-1)

    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        (f, g), (v_f, v_g) = halves(mean, variance)
        nodes, log_weights = gauss_hermite(g, v_g, self.num_nodes)
        deviation = (v_f + self._log_variance(nodes).exp()).sqrt()
        return Mixture(Normal(f.expand_as(nodes), deviation, validate_args=False), log_weights)

    def initial_latents(self, y: Tensor) -> Tensor:
        """The targets, and a constant noise."""
        return torch.cat([y, torch.zeros_like(y)], dim=-1)

    def summary(self) -> dict[str, float]:
        return {"noise": float((0.5 * self.log_noise.detach()).exp().mean())}

    def _expected_squares(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """The expectation of the squared error over its variance, and the expected logarithm of
        that variance."""
        (f, g), (v_f, v_g) = halves(mean, variance)
        log_variance = self.log_noise + g
        return ((y - f).square() + v_f) * bounded_exp(0.5 * v_g - log_variance), log_variance

    def _log_variance(self, g: Tensor) -> Tensor:
        return (self.log_noise + g).clamp(-LARGEST_LOG, LARGEST_LOG)


def halves(mean: Tensor, variance: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Means of f and g, and variances of f and g."""
    return mean.chunk(2, dim=-1), variance.expand_as(mean).chunk(2, dim=-1)
