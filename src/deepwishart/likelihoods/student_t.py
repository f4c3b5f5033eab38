"""Noise with heavy tails, for targets among which some are far off."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Normal

from deepwishart._support.arguments import number
from deepwishart._support.parameters import log_parameter
from deepwishart.likelihoods.base import Likelihood, Mixture

_NODES = 40  # of the predictive mixture
_REACH = 14.0  # in log w, which leaves the tails alone up to a thousand scales
_FARTHEST = 60.0  # in log w: its inverse is finite in single precision


class StudentT(Likelihood):
    r""":math:`p(y \mid f) = \prod_d \mathcal T_\nu\big(y_d;\, f_d,\, s_d\big)`, Student's t
    distribution with learned degrees of freedom :math:`\nu > 2`, so that the noise has a variance,
    and a scale :math:`s_d` for each target column.

    The log density is expected by quadrature. Predictions use that Student's t is a mixture of
    Gaussians over precisions, with which Gaussian latents add up exactly:

    .. math:: \int \mathcal T_\nu(y; f, s)\, \mathcal N(f; m, v)\, df
              = \int \mathcal N\big(y;\, m,\, v + s^2/w\big)\,
              \mathrm{Gamma}\big(w; \tfrac\nu2, \tfrac\nu2\big)\, dw,

    where :math:`w` is on a grid that reaches into its tails.

    Args:
        num_outputs: number of target columns D.
        scale: initial :math:`s`.
        degrees: initial :math:`\nu`, above 2.

    >>> likelihood = StudentT(1, scale=0.5, degrees=4.0)
    >>> zero = torch.zeros(3, 1, dtype=torch.float64)
    >>> likelihood.expected_log_prob(zero, mean=zero, variance=zero + 1.0).shape
    torch.Size([3])
    """

    num_nodes = 20

    def __init__(self, num_outputs: int = 1, scale: float = 0.3, degrees: float = 5.0) -> None:
        super().__init__(num_outputs)
        excess = check_degrees(degrees) - 2.0
        self.log_scale = log_parameter("scale", scale, self.num_outputs, dtype=torch.float64)
        self.log_excess = log_parameter("degrees", excess, dtype=torch.float64)

    @property
    def scale(self) -> Tensor:
        """Scale :math:`s`, ``(D,)``."""
        return self.log_scale.exp()

    @property
    def degrees(self) -> Tensor:
        r"""Degrees of freedom :math:`\nu`."""
        return 2.0 + self.log_excess.exp()

    def distribution(self, latents: Tensor) -> torch.distributions.StudentT:
        scale = self.scale.expand_as(latents)
        return torch.distributions.StudentT(self.degrees, latents, scale, validate_args=False)

    def curvature(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        r"""The mean precision that the residual leaves,
        :math:`(\nu + 1) / (\nu s^2 + (y - m)^2 + v)`."""
        squares = (y - mean).square() + variance
        return (self.degrees + 1.0) / (self.degrees * self.scale.square() + squares)

    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        log_precision, log_weights = log_gamma_grid(0.5 * self.degrees, _NODES)
        nodes = log_precision.reshape(-1, *(1 for _ in mean.shape))
        deviation = (variance + (2.0 * self.log_scale - nodes).exp()).sqrt()
        centre = mean.expand(len(nodes), *mean.shape)
        return Mixture(
            Normal(centre, deviation.expand_as(centre), validate_args=False), log_weights
        )

    def noise_level(self) -> float:
        degrees, scale = self.degrees.detach(), self.scale.detach()
        return float((scale * (degrees / (degrees - 2.0)).sqrt()).mean())


def check_degrees(degrees: float) -> float:
    """Degrees of freedom with which the noise has a variance."""
    if number("degrees", degrees) <= 2.0:
        raise ValueError(f"degrees must be above 2, so that noise has a variance; got {degrees}.")
    return float(degrees)


def log_gamma_grid(shape: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    r"""Values of :math:`\log w` for :math:`w \sim \mathrm{Gamma}(a, a)`, and their log weights: the
    trapezoidal rule after :math:`\log w = c \sinh t`, whose points are dense where the mass is and
    reach far where it is not.

    One more value, the first, stands for all that lies beyond the grid. It has the mass that is
    there, about :math:`e^{-14a}`, and makes the mean of :math:`1/w` what it should be,
    :math:`a / (a - 1)`: where :math:`\nu` is close to 2, most of the variance is out there."""
    a = shape.detach().double()
    c = torch.polygamma(1, a).sqrt()
    last = torch.asinh(((70.0 / a).sqrt() + 70.0 / a).log1p() / c)  # the density is below e^-30
    t = torch.lerp(-torch.asinh(_REACH / c), last, torch.linspace(0, 1, num_nodes).to(a))
    log_w = c * t.sinh()
    log_density = a * (log_w - log_w.expm1()) + t.cosh().log()
    beyond = a * (a.log() - _REACH) - torch.lgamma(a + 1.0)  # log P(w < e^-14), nearly
    log_weights = (log_density - log_density.logsumexp(0)) + (-beyond.exp()).log1p()
    missing = (a / (a - 1.0) - (log_weights - log_w).exp().sum()).clamp_min(0.0)
    farthest = (beyond - missing.log()).clamp(-_FARTHEST, -_REACH)
    log_w, log_weights = torch.cat([farthest[None], log_w]), torch.cat([beyond[None], log_weights])
    return log_w.to(shape.dtype), log_weights.to(shape.dtype)
