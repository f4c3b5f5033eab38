"""Noise whose scale depends on the inputs, and whose tails are heavy everywhere."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Normal

from deepwishart.likelihoods.base import Mixture, gauss_hermite
from deepwishart.likelihoods.heteroscedastic import HeteroscedasticGaussian, halves
from deepwishart.likelihoods.student_t import check_degrees, log_gamma_grid

__all__ = ["HeteroscedasticStudentT"]

_NODES = 28  # of the predictive mixture, over w


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
        dtype: of the parameter; double precision by default.
        device: of the parameter.

    >>> likelihood = HeteroscedasticStudentT(1, noise=0.5)
    >>> mean, variance = torch.zeros(3, 2), torch.ones(3, 2)
    >>> likelihood.expected_log_prob(torch.zeros(3, 1), mean, variance).shape
    torch.Size([3])
    """

    exact_expectation = False
    num_nodes = 4  # over g; those over w make the mixture smooth
    degrees: Tensor

    def __init__(
        self,
        num_outputs: int = 1,
        noise: float = 0.1,
        degrees: float = 5.0,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(num_outputs, noise, dtype=dtype, device=device)
        # Not among what is learned and stored.
        value = torch.tensor(check_degrees(degrees), dtype=dtype, device=device)
        self.register_buffer("degrees", value, persistent=False)

    def distribution(self, latents: Tensor) -> torch.distributions.StudentT:
        f, g = latents.chunk(2, dim=-1)
        scale = (0.5 * self._log_variance(g)).exp()
        return torch.distributions.StudentT(self.degrees, f, scale, validate_args=False)

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        squares, log_variance = self._expected_squares(y, mean, variance)
        nu = self.degrees
        peak = torch.lgamma(0.5 * (nu + 1.0)) - torch.lgamma(0.5 * nu) - 0.5 * (nu * math.pi).log()
        terms = peak - 0.5 * log_variance - 0.5 * (nu + 1.0) * (squares / nu).log1p()
        return terms.sum(-1)

    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        (f, g), (v_f, v_g) = halves(mean, variance)
        nodes, log_weights = gauss_hermite(g, v_g, self.num_nodes)
        log_precision, log_mass = log_gamma_grid(0.5 * self.degrees, _NODES)
        log_w = log_precision.reshape(-1, 1, *(1 for _ in f.shape))
        noise = (self._log_variance(nodes) - log_w).exp()
        deviation = (v_f + noise).sqrt().flatten(0, 1)
        centre = f.expand_as(deviation)
        return Mixture(
            Normal(centre, deviation, validate_args=False),
            (log_mass[:, None] + log_weights).flatten(),
        )

    def summary(self) -> dict[str, float]:
        spread = (self.degrees / (self.degrees - 2.0)).sqrt()
        return {"noise": float(super().summary()["noise"] * spread)}
