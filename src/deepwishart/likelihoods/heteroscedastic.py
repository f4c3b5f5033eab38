"""Noise that depends on the inputs: Gaussian, or with tails that are heavy everywhere."""

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
from deepwishart.likelihoods.student_t import check_degrees, log_gamma_grid

_NODES = 28  # of the heavy-tailed predictive mixture, over w


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

    >>> likelihood = HeteroscedasticGaussian(1, noise=0.5)
    >>> mean, variance = torch.zeros(3, 2), torch.ones(3, 2)
    >>> likelihood.expected_log_prob(torch.zeros(3, 1), mean, variance).shape
    torch.Size([3])
    """

    num_nodes = 10  # log variances are known well enough for the mixture to be smooth

    def __init__(self, num_outputs: int = 1, noise: float = 0.1) -> None:
        super().__init__(num_outputs, num_latents=2 * num_outputs)
        self.log_noise = log_parameter("noise", noise, self.num_outputs, dtype=torch.float64)

    @property
    def latent_groups(self) -> tuple[int, ...]:
        return (self.num_outputs, self.num_outputs)

    def distribution(self, latents: Tensor) -> Distribution:
        f, g = latents.chunk(2, dim=-1)
        return Normal(f, (0.5 * self._log_variance(g)).exp(), validate_args=False)

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        _, squares, log_variance = self._expected(y, mean, variance)
        return -0.5 * (squares + log_variance + math.log(2 * math.pi)).sum(-1)

    def curvature(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        r""":math:`\mathbb E\, e^{-g} / \sigma^2` for :math:`f`; none for :math:`g`."""
        weight, *_ = self._expected(y, mean, variance)
        return torch.cat([weight, torch.zeros_like(weight)], dim=-1)

    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        (f, g), (v_f, v_g) = halves(mean, variance)
        log_noise, log_weights = self._noise_nodes(g, v_g)
        deviation = (v_f + log_noise.exp()).sqrt()
        return Mixture(Normal(f.expand_as(deviation), deviation, validate_args=False), log_weights)

    def initial_latents(self, y: Tensor) -> Tensor:
        """The targets, and a constant noise."""
        return torch.cat([y, torch.zeros_like(y)], dim=-1)

    def noise_level(self) -> float:
        return float((0.5 * self.log_noise.detach()).exp().mean())

    def _expected(self, y: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Expectations of one over the noise's variance, of the squared error over it, and of its
        logarithm."""
        (f, g), (v_f, v_g) = halves(mean, variance)
        log_variance = self.log_noise + g
        precision = bounded_exp(0.5 * v_g - log_variance)
        return precision, ((y - f).square() + v_f) * precision, log_variance

    def _noise_nodes(self, g: Tensor, v_g: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms ``(K, ..., N, D)`` of variances that noise may have, and of their weights."""
        nodes, log_weights = gauss_hermite(g, v_g, self.num_nodes)
        return self._log_variance(nodes), log_weights

    def _log_variance(self, g: Tensor) -> Tensor:
        return (self.log_noise + g).clamp(-LARGEST_LOG, LARGEST_LOG)


def halves(mean: Tensor, variance: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Means of f and g, and variances of f and g."""
    return mean.chunk(2, dim=-1), variance.expand_as(mean).chunk(2, dim=-1)


class HeteroscedasticStudentT(HeteroscedasticGaussian):
    r""":math:`p(y \mid f, g) = \prod_d \mathcal T_\nu\big(y_d;\, f_d,\, \sigma_d e^{g_d/2}\big)`:
    of :math:`2D` latent columns, the first half gives means and the second half logarithms of
    squared scales.

    Where noise may change with the inputs, every row that is far off can be explained by noise
    just there, and Gaussian tails are then believed everywhere else, also where the next such row
    will be. For the same reason the data cannot tell how heavy the tails are: learned,
    :math:`\nu` grows without end. It is therefore fixed.

    Student's t is a Gaussian with a random precision, :math:`w \sim \mathrm{Gamma}(\tfrac\nu2,
    \tfrac\nu2)`. With the best distribution :math:`q(w)` of each row, which is a Gamma as well, the
    expected log density has a bound in closed form, where :math:`u` is the expected square of the
    scaled error:

    .. math:: \mathbb E \log p(y \mid f, g) \ge \sum_d \Big( \log \mathcal T_\nu(0; 0, \sigma_d)
              - \tfrac12 m_{g_d} - \tfrac{\nu + 1}2 \log\big(1 + u_d / \nu\big) \Big), \qquad
              u_d = \frac{(y_d - m_{f_d})^2 + v_{f_d}}{\sigma_d^2}\, e^{v_{g_d}/2 - m_{g_d}}.

    It is Jensen's inequality for :math:`-\log(1 + u)`, which is convex, and an equality where
    latents are certain. The evidence lower bound stays one.

    Args:
        num_outputs: number of target columns D.
        noise: initial :math:`\sigma^2`, the squared scale where :math:`g = 0`.
        degrees: degrees of freedom :math:`\nu`, above 2, so that the noise has a variance.

    >>> likelihood = HeteroscedasticStudentT(1, noise=0.5)
    >>> mean, variance = torch.zeros(3, 2), torch.ones(3, 2)
    >>> likelihood.expected_log_prob(torch.zeros(3, 1), mean, variance).shape
    torch.Size([3])
    """

    exact_expectation = False
    num_nodes = 4  # over g; those over w make the mixture smooth
    degrees: Tensor

    def __init__(self, num_outputs: int = 1, noise: float = 0.1, degrees: float = 5.0) -> None:
        super().__init__(num_outputs, noise)
        # Not among what is learned and stored.
        value = torch.tensor(check_degrees(degrees), dtype=torch.float64)
        self.register_buffer("degrees", value, persistent=False)

    def distribution(self, latents: Tensor) -> torch.distributions.StudentT:
        f, g = latents.chunk(2, dim=-1)
        scale = (0.5 * self._log_variance(g)).exp()
        return torch.distributions.StudentT(self.degrees, f, scale, validate_args=False)

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        _, squares, log_variance = self._expected(y, mean, variance)
        nu = self.degrees
        peak = torch.lgamma(0.5 * (nu + 1.0)) - torch.lgamma(0.5 * nu) - 0.5 * (nu * math.pi).log()
        terms = peak - 0.5 * log_variance - 0.5 * (nu + 1.0) * (squares / nu).log1p()
        return terms.sum(-1)

    def curvature(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        r"""That of the Gaussian times the mean precision that the residual leaves,
        :math:`(\nu + 1) / (\nu + \mathbb E r^2)`."""
        precision, squares, _ = self._expected(y, mean, variance)
        weight = precision * (self.degrees + 1.0) / (self.degrees + squares)
        return torch.cat([weight, torch.zeros_like(weight)], dim=-1)

    def _noise_nodes(self, g: Tensor, v_g: Tensor) -> tuple[Tensor, Tensor]:
        log_noise, log_weights = super()._noise_nodes(g, v_g)
        log_w, log_mass = log_gamma_grid(0.5 * self.degrees, _NODES)
        log_noise = log_noise - log_w.reshape(-1, 1, *(1 for _ in g.shape))
        return log_noise.flatten(0, 1), (log_mass[:, None] + log_weights).flatten()

    def noise_level(self) -> float:
        return super().noise_level() * float((self.degrees / (self.degrees - 2.0)).sqrt())
