"""The predictive distribution of targets: a mixture over posterior samples, streamed over rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from deepwishart._support.arguments import check_generator, probabilities, tensor, whole_number
from deepwishart.likelihoods import Gaussian, Likelihood, Mixture
from deepwishart.likelihoods.counts import CountLikelihood, Counts
from deepwishart.random import standard_normal

if TYPE_CHECKING:
    from deepwishart.posterior import Posterior
    from deepwishart.prior import Prior

__all__ = ["Predictive"]

_SMALL_COUNT = 100
_KEEP_ELEMENTS = 2**24  # latent means kept in memory rather than recomputed
_MOST_PASSES = 200  # over a mixture for its quantile; bisection alone takes about 60
_TOGETHER = 2**18  # components of mixtures that a processor's cache holds


class Predictive:
    r"""Mixture over posterior samples, for every row and column:

    .. math:: p(y_{nd}) = \frac1S \sum_s \int p(y_{nd} \mid f_n)\,
              \mathcal N(f_n; m_{sn}, v_{sn})\, df_n.

    Rows are given independently: these are marginal distributions, also where rows are close to
    each other (:meth:`deepwishart.DeepKernelProcess.sample_functions` draws rows jointly).
    Results have shape ``(N, D)``, or ``(N,)`` for a single target column. Small
    predictions keep their latent moments; large ones recompute them in chunks of rows for every
    question asked, so memory does not grow with rows times samples.

    Args:
        posterior: samples of the model.
        X: all inputs.
        chunk_rows: rows per chunk.
        offset: what to add to the latent functions of each row, ``(N, 1)`` or ``(N, num_latents)``.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> prediction = dw.build("dwp", X, X.sin(), num_inducing=5).predict(X, num_samples=30)
    >>> prediction.mean.shape, prediction.log_prob(X.sin()).shape, prediction.sample(7).shape
    (torch.Size([20]), torch.Size([20]), torch.Size([7, 20]))
    >>> bool((prediction.quantile(0.05) < prediction.quantile(0.95)).all())
    True
    """

    def __init__(
        self,
        posterior: Posterior | Prior,
        X: Tensor,
        *,
        chunk_rows: int,
        offset: Tensor | None = None,
    ) -> None:
        self._posterior = posterior
        self._X = X
        self._offset = X.new_zeros(1, 1).expand(len(X), 1) if offset is None else offset
        self._chunk_rows = chunk_rows
        self.num_samples = posterior.num_samples
        self.num_outputs = self.likelihood.num_outputs
        self._kept: list[tuple[Tensor, Tensor]] | None = None
        if X.shape[0] * self.num_samples * self.likelihood.num_latents <= _KEEP_ELEMENTS:
            self._kept = list(self._chunks())

    def __len__(self) -> int:
        return self._X.shape[0]

    @property
    def likelihood(self) -> Likelihood:
        """How targets arise from the latent functions."""
        return self._posterior.model.likelihood

    @property
    def gaussian(self) -> bool:
        """Whether components are Gaussian, one for each posterior sample."""
        return isinstance(self.likelihood, Gaussian)

    @property
    def discrete(self) -> bool:
        """Whether targets are counts."""
        return isinstance(self.likelihood, CountLikelihood)

    def latents(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Chunks of latent means and variances, ``(S, n, num_latents)`` each, in row order."""
        return iter(self._kept) if self._kept is not None else self._chunks()

    def components(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Chunks of component means and standard deviations, ``(S, n, D)`` each, in row order; for
        Gaussian noise, under which components are Gaussian."""
        if not isinstance(self.likelihood, Gaussian):  # spelled out for the type checker
            raise TypeError(
                f"Under {type(self.likelihood).__name__}, components are not Gaussian; ask for "
                "log_prob, cdf, quantile or sample instead."
            )
        for mean, variance in self.latents():
            yield mean, (variance + self.likelihood.noise).sqrt()

    @property
    def mean(self) -> Tensor:
        r"""Predictive mean."""
        return self.mean_and_variance()[0]

    @property
    def variance(self) -> Tensor:
        """Predictive variance: mean of the variances plus variance of the means."""
        return self.mean_and_variance()[1]

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        """Both moments from one pass over the components."""
        location = self._X.new_empty(len(self), self.num_outputs)
        spread = torch.empty_like(location)
        for rows, mixture in self._mixtures():
            mean = mixture.components.mean
            location[rows] = _average(mixture, mean)
            squares = (mean - location[rows]).square()
            spread[rows] = _average(mixture, mixture.components.variance + squares)
        return self._shape(location), self._shape(spread)

    @property
    def stddev(self) -> Tensor:
        """Predictive standard deviation."""
        return self.variance.sqrt()

    @torch.no_grad()
    def log_prob(self, y: Tensor, *, by_column: bool = False) -> Tensor:
        """Log density of each row's targets, ``(N,)``: one mixture over all columns together. With
        ``by_column``, that of each column by itself, ``(N, D)``."""
        targets = self._targets(y)
        result = self._X.new_empty(len(self), self.num_outputs if by_column else 1)
        for rows, mixture in self._mixtures():
            terms = mixture.components.log_prob(targets[rows])  # (K, S, n, D)
            weights = mixture.log_weights.reshape(-1, 1, 1, 1)
            by_sample = (weights + terms).logsumexp(0)
            by_sample = by_sample if by_column else by_sample.sum(-1, keepdim=True)
            result[rows] = by_sample.logsumexp(0) - math.log(self.num_samples)
        return result if by_column else result.squeeze(-1)

    @property
    def log_probs(self) -> Tensor:
        """Log probability of every value that a target may take, in order, where there are finitely
        many: ``(N, C)`` for C classes, or ``(N, D, C)``."""
        parts = []
        for _, mixture in self._mixtures():
            law = mixture.components
            if not law.has_enumerate_support:
                name = type(self.likelihood).__name__
                raise TypeError(f"Targets under {name} are no classes; ask for log_prob instead.")
            terms = law.log_prob(law.enumerate_support(expand=False))  # (C, K, S, n, D)
            total = terms + mixture.log_weights.reshape(-1, 1, 1, 1)
            parts.append(total.logsumexp((1, 2)) - math.log(self.num_samples))
        together = torch.cat(parts, dim=1).permute(1, 2, 0)
        return together.squeeze(1) if self.num_outputs == 1 else together

    @property
    def probs(self) -> Tensor:
        """Probability of every class, as :attr:`log_probs`."""
        return self.log_probs.exp()

    def cdf(self, y: Tensor) -> Tensor:
        """Marginal distribution function of each column at ``y``."""
        targets = self._targets(y)
        result = torch.empty_like(targets)
        for rows, mixture in self._mixtures():
            result[rows] = _cdf(mixture, targets[rows])
        return self._shape(result)

    def quantile(self, p: float | Tensor) -> Tensor:
        """Marginal quantile of each column, to full precision.

        Args:
            p: a probability, or a 1-D tensor of K probabilities, which the result then has a
                leading dimension for.
        """
        levels = torch.as_tensor(probabilities("p", p)).to(self._X)
        if levels.ndim:
            return torch.stack([self.quantile(level) for level in levels])
        result = self._X.new_empty(len(self), self.num_outputs)
        for rows, mixture in self._mixtures():
            result[rows] = _quantile(mixture, levels)
        return self._shape(result)

    @torch.no_grad()
    def sample(self, num_samples: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Draws of the targets, ``(num_samples, N, D)`` or ``(num_samples, N)``.

        A draw picks one posterior sample for all rows; given that, rows are independent.
        """
        whole_number("num_samples", num_samples)
        check_generator(generator)
        device = self._X.device
        which = torch.randint(self.num_samples, (num_samples,), generator=generator, device=device)
        drawn = self._X.new_empty(num_samples, len(self), self.num_outputs)
        start = 0
        for mean, variance in self.latents():
            rows = slice(start, start + mean.shape[1])
            m, s = mean[which], variance[which].sqrt()
            latents = m + s * standard_normal(m.shape, m.dtype, m.device, generator)
            seed = torch.randint(2**62, (), generator=generator, device=device)
            drawn[:, rows] = draw_targets(self.likelihood, latents, int(seed))
            start = rows.stop
        return self._shape(drawn)

    def _chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        pieces = (rows.split(self._chunk_rows) for rows in (self._X, self._offset))
        for chunk, offset in zip(*pieces, strict=True):
            mean, variance = self._posterior.latents(chunk)
            yield mean + offset, variance

    @torch.no_grad()
    def _mixtures(self) -> Iterator[tuple[slice, Mixture]]:
        """Rows and their mixtures, so few at a time that a processor's cache holds all components.
        Results are written into place: small results kept between large temporaries would fragment
        memory."""
        start = 0
        for latents in self.latents():
            one_row = self.likelihood.predictive(*(each[:, :1] for each in latents))
            most = max(1, _TOGETHER // one_row.components.mean.numel())
            for mean, variance in zip(*(each.split(most, dim=1) for each in latents), strict=True):
                rows = slice(start, start + mean.shape[1])
                yield rows, self.likelihood.predictive(mean, variance)
                start = rows.stop

    def _shape(self, result: Tensor) -> Tensor:
        return result.squeeze(-1) if self.num_outputs == 1 else result

    def _targets(self, y: Tensor) -> Tensor:
        y = tensor("y", y).to(self._X)
        y = y.unsqueeze(-1) if y.ndim == 1 else y
        if y.shape != (len(self), self.num_outputs):
            raise ValueError(
                f"y must have {len(self)} rows and {self.num_outputs} columns, got {tuple(y.shape)}"
            )
        if bool(y.isnan().any()):
            raise ValueError("y has NaN values; remove those rows.")
        return y


def draw_targets(likelihood: Likelihood, latents: Tensor, seed: int) -> Tensor:
    """Targets ``(..., N, D)`` given latents ``(..., N, num_latents)``. PyTorch's distributions draw
    from its global generator, which is seeded for the purpose and put back."""
    devices = [latents.device] if latents.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        torch.manual_seed(seed)
        return likelihood.distribution(latents).sample().to(latents.dtype)


def _average(mixture: Mixture, values: Tensor) -> Tensor:
    """Over components ``(K, S, n, D)``, weighted, and over posterior samples."""
    return torch.tensordot(mixture.log_weights.exp(), values, dims=1).mean(0)


def _cdf(mixture: Mixture, y: Tensor) -> Tensor:
    try:
        return _average(mixture, mixture.components.cdf(y))
    except NotImplementedError:
        name = type(mixture.components).__name__
        raise TypeError(f"{name} has no distribution function, and so no quantiles.") from None


def _quantile(mixture: Mixture, level: Tensor) -> Tensor:
    r"""Of counts, the smallest whose distribution function reaches the level; else the root of
    :math:`\Phi^{-1}(F(y)) - \Phi^{-1}(p)`, which is nearly linear in :math:`y`, by Chandrupatla's
    method (1997): inverse quadratic interpolation where it is safe, bisection elsewhere."""
    if isinstance(mixture.components, Counts):
        return _count_quantile(mixture, mixture.components, level)
    z, rounding = torch.special.ndtri(level), torch.finfo(level.dtype).eps
    typical = _average(mixture, mixture.components.stddev).nan_to_num(1.0, 1.0)
    # What rounding of the distribution function makes of its normal quantile.
    enough = 2.0 * rounding * math.sqrt(2 * math.pi) * (0.5 * z.square()).exp()

    def excess(y: Tensor) -> Tensor:
        return torch.special.ndtri(_cdf(mixture, y)) - z

    a, b = _bracket(mixture, level)
    f_a, f_b, step = excess(a), excess(b), torch.full_like(a, 0.5)
    found, done = a, torch.zeros_like(a, dtype=torch.bool)
    for _ in range(_MOST_PASSES):
        new = a + step * (b - a)
        f_new = excess(new)
        same = (f_new > 0) == (f_a > 0)
        c, f_c = torch.where(same, a, b), torch.where(same, f_a, f_b)
        b, f_b = torch.where(same, b, a), torch.where(same, f_b, f_a)
        a, f_a = new, f_new
        found = torch.where(done, found, torch.where(f_a.abs() < f_b.abs(), a, b))
        least = (rounding * (typical + a.abs()) / (b - a).abs()).clamp_max(0.5)
        done = done | (least == 0.5) | (torch.minimum(f_a.abs(), f_b.abs()) <= enough)
        if bool(done.all()):
            break
        ratio, slope = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
        safe = (slope.square() < ratio) & ((1.0 - slope).square() < 1.0 - ratio)
        step = f_a / (f_b - f_a) * f_c / (f_b - f_c)
        step = step + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)
        step = torch.where(safe, step, 0.5).clamp(least, 1.0 - least)
    return found


def _count_quantile(mixture: Mixture, law: Counts, level: Tensor) -> Tensor:
    """Adding up probabilities is the fastest for small counts, bisection for others."""
    mass = law.log_prob(torch.zeros_like(level)).exp()
    reached = _average(mixture, mass)
    found = torch.where(reached >= level, 0.0, math.inf)
    for count in range(_SMALL_COUNT):
        if not bool(found.isinf().any()):
            return found
        mass = mass * law.ratio(count)
        reached = reached + _average(mixture, mass)
        found = torch.where(found.isinf() & (reached >= level), count + 1.0, found)
    low, high = (end.floor() for end in _bracket(mixture, level))
    low, high = low - 1.0, high + 1.0
    while bool((high - low > 1.0).any()):
        middle = (0.5 * (low + high)).floor()
        below = _cdf(mixture, middle) < level
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return high


def _bracket(mixture: Mixture, level: Tensor) -> tuple[Tensor, Tensor]:
    """The mixture's quantile lies between its components' smallest and largest; where those are
    not known, intervals are widened until they hold it."""
    try:
        bounds = mixture.components.icdf(level).flatten(0, 1)
        return bounds.amin(0), bounds.amax(0)
    except NotImplementedError:
        centre = _average(mixture, mixture.components.mean)
        reach = mixture.components.stddev.flatten(0, 1).amax(0) + 1e-6
        # Distributions refuse values outside their support.
        support = mixture.components.support
        ends = [
            torch.as_tensor(getattr(support, name, limit), dtype=reach.dtype, device=reach.device)
            for name, limit in (("lower_bound", -math.inf), ("upper_bound", math.inf))
        ]
        low = high = centre.nan_to_num(0.0).clamp(*ends)
        for _ in range(60):
            too_high, too_low = _cdf(mixture, low) > level, _cdf(mixture, high) < level
            if not (too_high.any() or too_low.any()):
                break
            low = torch.where(too_high, low - reach, low).clamp(*ends)
            high = torch.where(too_low, high + reach, high).clamp(*ends)
            reach = 2.0 * reach
        return low, high
