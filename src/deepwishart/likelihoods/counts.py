"""Counts with a mean and more or less spread, and likelihoods whose rate depends on the inputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import special
from torch import Tensor, nn
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

from deepwishart._support.parameters import log_parameter
from deepwishart.likelihoods.base import (
    LARGEST_LOG,
    Likelihood,
    Mixture,
    bounded_exp,
    gauss_hermite,
)

_LEAST_DISPERSION = 1e-14  # below, a count is a Poisson variable to all digits
_POISSON_DISPERSION = 1e-9  # likewise, to the digits of an incomplete beta function
_NORMAL_DISPERSION, _NORMAL_COUNT = 0.01, 100.0
_LARGE = 10.0  # total counts from which Stirling's series has all digits of double precision
_SMOOTHED = 0.15  # share of the latent variance that components take up, if they are Poisson's


class Counts(Distribution):
    r"""Counts of mean :math:`\mu` and variance :math:`\mu + a\mu^2`: with :math:`r = 1/a`,

    .. math:: p(y) = \frac{\Gamma(y + r)}{\Gamma(r)\, y!}
              \Big(\frac{a\mu}{1 + a\mu}\Big)^y \Big(\frac1{1 + a\mu}\Big)^r,

    the negative binomial distribution, a Poisson variable whose rate has a Gamma distribution;
    with :math:`a = 0` it is Poisson's. Unlike PyTorch's, it has a distribution function, and all
    digits where :math:`r` is large.

    Args:
        log_mean: :math:`\log \mu`.
        dispersion: :math:`a \ge 0`.

    >>> Counts(torch.zeros(()), torch.zeros(())).log_prob(torch.tensor(1.0)).exp()  # 1/e
    tensor(0.3679)
    """

    support = constraints.nonnegative_integer
    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, log_mean: Tensor, dispersion: Tensor) -> None:
        self._dispersion = dispersion.clamp_min(_LEAST_DISPERSION)  # with a shape of its own
        self.log_mean, self.dispersion = broadcast_all(
            log_mean.clamp_max(LARGEST_LOG), self._dispersion
        )
        super().__init__(self.log_mean.shape, validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Counts:
        return Counts(self.log_mean.expand(batch_shape), self.dispersion.expand(batch_shape))

    @property
    def mean(self) -> Tensor:
        return self.log_mean.exp()

    @property
    def variance(self) -> Tensor:
        return self.mean + self.dispersion * self.mean.square()

    def log_prob(self, value: Tensor) -> Tensor:
        a = self._dispersion
        # log(1 + a mu), and its quotient by a, which is mu where a vanishes.
        spread = torch.nn.functional.softplus(self.log_mean + a.log())
        return (
            _log_rising(value, a)
            - torch.lgamma(value + 1.0)
            + value * (self.log_mean - spread)
            - spread / a
        )

    def ratio(self, count: int) -> Tensor:
        """:math:`p(y + 1) / p(y)` at a count :math:`y`."""
        mean, a = self.mean, self.dispersion
        return (mean / (1.0 + a * mean)) * (1.0 + a * count) / (count + 1.0)

    def cdf(self, value: Tensor) -> Tensor:
        a, mean, k = (
            each.detach().double().cpu().numpy()
            for each in torch.broadcast_tensors(self.dispersion, self.mean, value.floor())
        )
        found = np.empty(k.shape)
        near = (a <= _NORMAL_DISPERSION) & (k >= _NORMAL_COUNT)
        found[near] = _nearly_normal_tail(a[near], mean[near], k[near] + 1.0)
        poisson = a < _POISSON_DISPERSION
        odds = a * mean
        chance = odds / (1.0 + odds)
        special.betainc(k + 1.0, 1.0 / a, chance, out=found, where=~near & ~poisson)
        special.gammainc(k + 1.0, mean, out=found, where=~near & poisson)
        return torch.as_tensor(1.0 - found).to(self.log_mean).where(value >= 0, 0.0)

    @torch.no_grad()
    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        total = (1.0 / self.dispersion).expand(shape)
        # Of the Gamma factor, double precision keeps its distance from one.
        law = torch.distributions.Gamma(total.double(), total.double(), validate_args=False)
        rate = torch.where(total > 1e9, 1.0, law.sample()) * self.mean.expand(shape).double()
        return torch.poisson(rate).to(self.log_mean.dtype)


def _nearly_normal_tail(a: np.ndarray, mean: np.ndarray, size: np.ndarray) -> np.ndarray:
    r""":math:`P(Y \ge s)`, from the cube root of an F variable being nearly normal (Wilson &
    Hilferty, Paulson): an error below 1e-4, many times faster than incomplete functions."""
    root = np.cbrt(mean / size)
    z = root * (1.0 - a / 9.0) - 1.0 + 1.0 / (9.0 * size)
    return np.asarray(special.ndtr(z / np.sqrt(1.0 / (9.0 * size) + root**2 * a / 9.0)))


def _log_rising(y: Tensor, a: Tensor) -> Tensor:
    r""":math:`\log\Gamma(y + r) - \log\Gamma(r) - y\log r = \sum_{k<y} \log(1 + ka)`, by Stirling's
    series where :math:`r = 1/a` is large and the difference would lose its digits."""
    small = a.clamp_max(1.0 / _LARGE)
    r = 1.0 / small

    def tail(z: Tensor) -> Tensor:
        square = z.square()
        return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * square)) / square) / square) / z

    series = (r + y - 0.5) * (y * small).log1p() - y + tail(r + y) - tail(r)
    r = 1.0 / a.clamp_min(1.0 / _LARGE)
    direct = torch.lgamma(y + r) - torch.lgamma(r) - y * r.log()
    return torch.where(a < 1.0 / _LARGE, series, direct)


class CountLikelihood(Likelihood):
    r"""Counts with mean :math:`c\, e^f`, or :math:`e\, c\, e^f` where rows have exposures
    :math:`e`; the typical rate :math:`c` of each column is learned, and starts at the data's.

    In predictions, up to a seventh of the variance of :math:`f` goes into the components, as
    dispersion with the same mean and variance, and the rest is for quadrature. The mixture of
    counts is smooth then, also where counts are large and Poisson's distribution is narrow.

    Args:
        num_outputs: number of target columns D.
        exposure: whether they have, as in :class:`~deepwishart.likelihoods.Poisson`.

    >>> from deepwishart.likelihoods import Poisson
    >>> Poisson(1, exposure=True).num_columns
    2
    """

    location_scale = False
    num_nodes = 16

    def __init__(self, num_outputs: int = 1, *, exposure: bool = False) -> None:
        super().__init__(num_outputs)
        self.exposure = exposure
        self.log_rate = nn.Parameter(torch.zeros(num_outputs, dtype=torch.float64))

    @property
    def num_columns(self) -> int:
        return self.num_outputs + self.exposure

    @abstractmethod
    def dispersion_given(self, latents: Tensor) -> Tensor:
        """Dispersion :math:`a` given the latents, ``(D,)`` or ``()``."""

    def log_mean(self, y: Tensor, latents: Tensor) -> tuple[Tensor, Tensor]:
        """Counts, and the logarithms of their means given latents, exposures included."""
        y, log_exposure = y[..., : self.num_outputs], y[..., self.num_outputs :]
        log_mean = self.log_rate + latents
        return y, log_mean + log_exposure if self.exposure else log_mean

    def distribution(self, latents: Tensor) -> Counts:
        return Counts(self.log_rate + latents, self.dispersion_given(latents))

    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        given = self.dispersion_given(mean)
        variance = variance.clamp_max(LARGEST_LOG).expand_as(mean)
        part = variance * _SMOOTHED / (1.0 + given / _SMOOTHED)
        log_mean = self.log_rate + mean + 0.5 * part
        nodes, log_weights = gauss_hermite(log_mean, variance - part, self.num_nodes)
        # (1 + a) e^v - 1, since squares of coefficients of variation, plus one, multiply.
        return Mixture(Counts(nodes, given + (1.0 + given) * part.expm1()), log_weights)

    def initial_latents(self, y: Tensor) -> Tensor:
        """Logarithms of rates, half a count added to each."""
        counts, log_mean = self.log_mean(y, torch.zeros_like(y[..., : self.num_outputs]))
        return ((counts + 0.5).log() - log_mean).detach()

    @torch.no_grad()
    def start_from(self, y: Tensor) -> None:
        """Let the typical rate be that of all rows together."""
        counts, exposures = y[..., : self.num_outputs], y[..., self.num_outputs :].exp()
        total = exposures.sum(0) if self.exposure else len(y)
        self.log_rate.copy_(((counts.sum(0) + 0.5) / total).log())


class Poisson(CountLikelihood):
    r""":math:`p(y \mid f) = \prod_d \lambda_d^{y_d} e^{-\lambda_d} / y_d!` with rates
    :math:`\lambda = c\, e^f`, where the typical rate :math:`c` is learned.

    Under Gaussian latents the expected log density is known,

    .. math:: \mathbb E \log p(y \mid f) = \sum_d \Big( y_d (m_d + \log c_d)
              - c_d\, e^{m_d + v_d/2} - \log y_d! \Big).

    Args:
        num_outputs: number of target columns D.
        exposure: counts were made over times, areas or populations :math:`e` that differ from row
            to row, :math:`\lambda = e\, c\, e^f`. In training, ``y`` then has one more column, the
            last, with :math:`\log e`, and predictions are for :math:`e = 1` unless told otherwise
            (``offset`` of :meth:`deepwishart.posterior.Posterior.predict`).

    >>> likelihood = Poisson(1)
    >>> zero = torch.zeros(3, 1)
    >>> likelihood.expected_log_prob(zero, mean=zero, variance=zero).tolist()
    [-1.0, -1.0, -1.0]
    """

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        y, log_mean = self.log_mean(y, mean)
        terms = y * log_mean - bounded_exp(log_mean + 0.5 * variance) - torch.lgamma(y + 1.0)
        return terms.sum(-1)

    def dispersion_given(self, latents: Tensor) -> Tensor:
        return latents.new_zeros(())


class NegativeBinomial(CountLikelihood):
    r""":math:`p(y \mid f) = \prod_d \mathrm{NB}(y_d; \mu_d, a_d)`, counts with mean
    :math:`\mu = c\, e^f` and variance :math:`\mu + a\mu^2`, where the typical rate :math:`c_d` and
    the dispersion :math:`a_d` of each column are learned; without it they would be Poisson counts.

    The log density (:class:`~deepwishart.likelihoods.Counts`) is expected by quadrature.

    Args:
        num_outputs: number of target columns D.
        dispersion: initial :math:`a`.
        exposure: as in :class:`~deepwishart.likelihoods.Poisson`.

    >>> likelihood = NegativeBinomial(1, dispersion=0.5)
    >>> zero = torch.zeros(3, 1)
    >>> likelihood.expected_log_prob(zero, mean=zero, variance=zero)[0].exp()  # (1 + 1/2)**-2
    tensor(0.4444, dtype=torch.float64, grad_fn=<ExpBackward0>)
    """

    def __init__(
        self, num_outputs: int = 1, dispersion: float = 0.1, *, exposure: bool = False
    ) -> None:
        super().__init__(num_outputs, exposure=exposure)
        self.log_dispersion = log_parameter(
            "dispersion", dispersion, self.num_outputs, dtype=torch.float64
        )

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        y, log_mean = self.log_mean(y, mean)
        return super().expected_log_prob(y, log_mean - self.log_rate, variance)

    def dispersion_given(self, latents: Tensor) -> Tensor:
        return self.log_dispersion.exp().to(latents)
