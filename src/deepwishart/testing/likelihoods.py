"""The contract of likelihoods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, biject_to, constraints

from deepwishart.likelihoods import Likelihood, Mixture
from deepwishart.predict import draw_targets
from deepwishart.testing.requirements import Requirements

_SAMPLES, _ROWS, _DRAWS = 3, 5, 4000
_REACH, _STEP = 20.0, 1.0 / 128  # of the grid over real targets, in asinh of the units of the scale
_MOST_COUNTS = 20_000


def check_likelihood(
    likelihood: Likelihood, *, dtype: torch.dtype = torch.float64, seed: int = 0
) -> None:
    r"""Check all that objectives and predictions take for granted about a likelihood.

    ``distribution`` is the law of targets given latents. It has to have mass one over its support,
    continuous or discrete, and its samples, mean, variance and distribution function have to be
    its own. Everything else has to follow from it, by numerical integration over one latent column
    after the other:

    .. math:: \texttt{expected\_log\_prob}(y, m, v)
              = \int \mathcal N(f_j; m_j, v_j)\; \texttt{expected\_log\_prob}\big(y, m|_{m_j = f_j},
              v|_{v_j = 0}\big)\, df_j,

    with the log density itself where :math:`v = 0` (and :math:`\le` instead of :math:`=`, if the
    likelihood says so by ``exact_expectation = False``), and likewise for the density of the
    mixture that ``predictive`` returns. Besides, shapes, dtype and gradients have to be right, and
    values finite where latents are extreme. What passes can be trained and predicts.

    Integrals are compared in double, at latents with variances of about one. Where a likelihood is
    much narrower than that or has a kink, quadrature is inexact: ``num_nodes`` may have to grow.

    >>> from deepwishart.likelihoods import Gaussian
    >>> check_likelihood(Gaussian(num_outputs=2, noise=0.3))
    """
    check = _LikelihoodCheck(likelihood, dtype, seed)
    check.require(isinstance(likelihood, Likelihood), "it is no likelihoods.Likelihood")
    check.shapes_and_dtype()
    check.extremes()
    exact = _LikelihoodCheck(likelihood, torch.float64, seed)
    exact.density()
    exact.samples()
    exact.expectation()
    exact.predictive()
    exact.gradients()


class _LikelihoodCheck(Requirements):
    subject: Likelihood

    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Targets ``(N, D)``, and means and variances ``(S, N, num_latents)``."""
        shape = (_SAMPLES, _ROWS, self.subject.num_latents)
        mean = 0.7 * self.normal(*shape)
        variance = 0.1 + 0.5 * self.normal(*shape).square().clamp_max(2.0)
        return draw_targets(self.subject, mean[0], self.seed), mean, variance

    def predicted(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Density of every target, ``(..., N, D)``."""
        components, log_weights = self.subject.predictive(mean, variance)
        weights = log_weights.reshape(-1, *(1 for _ in mean.shape))
        return (components.log_prob(y) + weights).logsumexp(0).exp()

    # ---- what every answer looks like ---------------------------------------------------------

    def shapes_and_dtype(self) -> None:
        outputs, latents = self.subject.num_outputs, self.subject.num_latents
        mean = self.normal(_SAMPLES, _ROWS, latents)
        self._law("distribution", self.subject.distribution(mean), (_SAMPLES, _ROWS, outputs))
        y, mean, variance = self.moments()
        self.require_value("a sample of distribution", y, (_ROWS, outputs))
        self.require_value("initial_latents", self.subject.initial_latents(y), (_ROWS, latents))
        for spread in (variance, variance[..., :1], torch.zeros_like(variance)):
            expected = self.subject.expected_log_prob(y, mean, spread)
            self.require_value("expected_log_prob", expected, (_SAMPLES, _ROWS))
            components, weights = self.subject.predictive(mean, spread)
            self._law("predictive", components, (len(weights), _SAMPLES, _ROWS, outputs))
            self.require_value("the log weights of predictive", weights, (len(weights),))
            add_up = weights.logsumexp(0).abs() < self.tolerance
            self.require(add_up, "the weights of predictive do not add up to one")
        again = self.subject.expected_log_prob(y, mean, spread)
        self.require_equal(again, expected, "expected_log_prob gives two answers to one question")

    def _law(self, name: str, law: Distribution, shape: tuple[int, ...]) -> None:
        batch, event = tuple(law.batch_shape), tuple(law.event_shape)
        what = f"{name} has batch shape {batch} and event shape {event} instead of {shape} and ()"
        self.require((batch, event) == (shape, ()), what)

    def extremes(self) -> None:
        y, mean, _ = self.moments()
        for size in (-10.0, 10.0):
            for spread in (0.0, 1.0):
                centre = torch.full_like(mean, size).requires_grad_()
                variance = torch.full_like(mean, spread).requires_grad_()
                value = self.subject.expected_log_prob(y, centre, variance)
                where = f"where latents are {size} and their variance is {spread}"
                self.require(value.isfinite().all(), f"expected_log_prob is not finite {where}")
                violation = f"the gradient of expected_log_prob is not finite {where}"
                self.require_finite_gradient(value.sum(), [centre, variance], violation)

    # ---- the law of targets given latents -----------------------------------------------------

    @torch.no_grad()
    def density(self) -> None:
        """Mass, moments and distribution function, integrated over targets."""
        _, mean, variance = self.moments()
        law = self.subject.distribution(mean[0])
        single = Mixture(law.expand(torch.Size([1, *law.batch_shape])), mean.new_zeros(1))
        self._integrals("distribution", single)
        self._integrals("predictive", self.subject.predictive(mean[0], variance[0]))

    def _integrals(self, name: str, mixture: Mixture) -> None:
        law: Any = mixture.components
        weights = mixture.log_weights.exp()

        def average(values: Tensor) -> Tensor:
            return torch.tensordot(weights, values, dims=1)

        mean = average(law.mean)
        variance = average(law.variance + (law.mean - mean).square())
        y, weight = _targets(law, mean, variance)
        density = law.log_prob(y.unsqueeze(1)).exp()
        mass = weight * torch.tensordot(density, weights, dims=([1], [0]))
        total = mass.sum(0)
        self.require_close(total, torch.ones_like(total), f"{name} has no mass 1", 1e-3)
        found = (mass * y).sum(0)
        self._same(found, mean, f"the mean of {name} is not that of its density")
        spread = (mass * (y - found).square()).sum(0)
        self._same(spread, variance, f"the variance of {name} is not that of its density")
        if law.support.is_discrete:
            return
        try:
            below = torch.stack([average(law.cdf(value)) for value in y])
        except NotImplementedError:
            return
        what = f"the cdf of {name} is not that of its density"
        self.require_close(below, mass.cumsum(0) - 0.5 * mass, what, 1e-3)

    def _same(self, found: Tensor, stated: Tensor, violation: str) -> None:
        """Moments that exist are the same; heavy tails leave a little of them beyond any grid."""
        found, stated = (torch.where(stated.isfinite(), t, 0.0) for t in (found, stated))
        self.require_close(found, stated, violation, 2e-3)

    def samples(self) -> None:
        _, mean, _ = self.moments()
        law = self.subject.distribution(mean[0])
        if not law.mean.isfinite().all():
            return
        drawn = draw_targets(self.subject, mean[0].expand(_DRAWS, -1, -1), self.seed)
        what = "samples of distribution have another mean than it says"
        self.require_zero_mean(drawn - law.mean, what)

    # ---- what follows from it -----------------------------------------------------------------

    @torch.no_grad()
    def expectation(self) -> None:
        y, mean, variance = self.moments()
        expected = self.subject.expected_log_prob
        found = expected(y, mean, torch.zeros_like(variance))
        log_density = self.subject.distribution(mean).log_prob(y).sum(-1)
        what = "expected_log_prob without variance is not the log density"
        self.require_close(found, log_density, what)
        what = "expected_log_prob is not the expectation of log p(y|f)"
        for found, integral in self._one_column_less(expected, y, mean, variance):
            scale = integral.abs().clamp_min(1.0)
            if not self.subject.exact_expectation:
                self.require((found <= integral + 1e-6 * scale).all(), f"{what}, nor below it")
                continue
            # Room for quadrature; a forgotten variance misses by far more.
            self.require_close(found / scale, integral / scale, what, 1e-2)

    @torch.no_grad()
    def predictive(self) -> None:
        y, mean, variance = self.moments()
        found = self.predicted(y, mean, torch.zeros_like(variance))
        density = self.subject.distribution(mean).log_prob(y).exp()
        # Room for a mixture that is a quadrature itself.
        what = "predictive without variance is not distribution"
        self.require_close(found, density, what, 1e-6)
        what = "predictive is not the expectation of p(y|f)"
        for found, integral in self._one_column_less(self.predicted, y, mean, variance):
            largest = integral.max()
            self.require_close(found / largest, integral / largest, what, 3e-2)

    def _one_column_less(
        self, function: Callable[..., Tensor], y: Tensor, mean: Tensor, variance: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        """For one latent column after the other: the function with its variance, and the same
        integrated over that column, whose variance is then zero and stays so."""
        grid = torch.linspace(-9.0, 9.0, 901, dtype=self.dtype, device=self.device)
        weight = (-0.5 * grid.square()).exp() * 0.02 / math.sqrt(2 * math.pi)
        pairs = []
        for column in range(self.subject.num_latents):
            less = variance.clone()
            less[..., column] = 0.0
            moved = mean.expand(len(grid), *mean.shape).clone()
            moved[..., column] += grid[:, None, None] * variance[..., column].sqrt()
            values = function(y, moved, less.expand_as(moved))
            pairs.append((function(y, mean, variance), torch.tensordot(weight, values, dims=1)))
            variance = less
        return pairs

    def gradients(self) -> None:
        y, mean, variance = self.moments()
        expected, what = self.subject.expected_log_prob, "the gradient of expected_log_prob"
        self.require_slopes(lambda m, v: expected(y, m, v), (mean, variance), what)


def _targets(law: Any, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Points ``(G, N, D)`` or ``(G, 1, 1)`` all over the support of a law with batch shape
    ``(K, N, D)``, and the weights with which values there add up to an integral."""

    def line(first: float, last: float, step: float) -> Tensor:
        points = torch.arange(first, last, step, dtype=mean.dtype, device=mean.device)
        return points.reshape(-1, 1, 1)

    centre, scale = mean.nan_to_num(0.0, 0.0, 0.0), variance.nan_to_num(1.0, 1.0, 1.0).sqrt()
    support = law.support
    if support.is_discrete:
        if law.has_enumerate_support:
            values = law.enumerate_support(expand=False).reshape(-1, 1, 1)
        else:
            first = float(getattr(support, "lower_bound", 0.0))
            reach = (law.mean + 40.0 * law.stddev).nan_to_num(_MOST_COUNTS).max()
            last = first + min(50.0 + float(reach), _MOST_COUNTS)
            last = min(last, float(torch.as_tensor(getattr(support, "upper_bound", last)).max()))
            values = line(first, last + 1.0, 1.0)
        return values, torch.ones_like(values)
    if isinstance(support, type(constraints.real)):
        grid = line(-_REACH, _REACH, _STEP)
        return centre + scale * grid.sinh(), scale * _STEP * grid.cosh()
    # Logarithms of positive numbers, logits of numbers in an interval.
    grid = line(-200.0, 35.0, 2 * _STEP)
    transform = biject_to(support)
    values = transform(grid)
    return values, 2 * _STEP * transform.log_abs_det_jacobian(grid, values).exp()
