"""Which inputs a fitted estimator uses, and how its prediction depends on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from deepwishart.estimators.evaluation import conformal_quantile
from deepwishart.likelihoods import ClassLikelihood
from deepwishart.likelihoods.counts import CountLikelihood
from deepwishart.model import DeepKernelProcess

if TYPE_CHECKING:
    from deepwishart.estimators.base import DeepKernelEstimator


class Relevance(NamedTuple):
    """What one input, or a group of them, is worth.

    ``lengthscale`` is that of the first layer, in standard deviations of the input: the shorter,
    the more the input is looked at; ``None`` if the kernel has none. ``importance`` is what the
    log score loses per row, in nats, when the input's values are dealt out to the rows at random,
    with its ``standard_error``; ``None`` without rows to try it on.
    """

    name: str
    lengthscale: float | None
    importance: float | None
    standard_error: float | None


class Dependence(NamedTuple):
    """The average prediction where an input is set to each of G values, ``(G, D)``, with the ends
    of a band in which 90% of the functions drawn from the posterior lie at all G values."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def relevance(
    estimator: DeepKernelEstimator,
    X: Any = None,
    y: Any = None,
    *,
    groups: Mapping[str, Sequence[int]] | None = None,
    n_repeats: int = 5,
    random_state: int = 0,
) -> list[Relevance]:
    r"""Which inputs matter: the first layer's lengthscales and, given rows, what the log score
    loses when an input's values are dealt out to the rows at random.

    A group's lengthscale is :math:`(\sum_d \ell_d^{-2})^{-1/2}`. Its importance is the mean over N
    rows of :math:`\delta_n = \frac1R \sum_r h_{nr}`, with :math:`h_{nr} = \log p(y_n \mid x_n) -
    \log p(y_n \mid x_n^{(r)})`. Rows are donors as well: with :math:`\gamma_n` the mean of the
    :math:`h_{mr}` of those that were given the values of row n, the standard error squared is

    .. math:: \frac1N \max\Big(\operatorname{var}_n(\delta_n + \gamma_n)
              - \tfrac1R \operatorname{var}_{nr}(h_{nr}),\; \operatorname{var}_n(\delta_n)\Big),

    as of a U-statistic: the second term takes off what is counted twice, the chance of who was
    dealt what.

    Args:
        X: inputs that were not trained on, ``(N, num_features)``.
        y: their targets.
        groups: columns of ``X``, by number, that belong together, such as those of one
            category; every column by itself if ``None``.
        n_repeats: how often values are dealt out, :math:`R`.
        random_state: seed of that.

    Returns:
        For each input or group ``name``, ``lengthscale``, ``importance`` and
        ``standard_error``, see :class:`deepwishart.estimators.Relevance`.
    """
    check_is_fitted(estimator, "model_")
    if (X is None) != (y is None):
        raise ValueError("relevance needs both X and y, or neither.")
    names = estimator._names() or [f"x{n}" for n in range(1, estimator.n_features_in_ + 1)]
    parts = groups or {name: [index] for index, name in enumerate(names)}
    scales, random = _lengthscales(estimator.model_), np.random.default_rng(random_state)
    if X is not None:
        rows = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        before = _log_prob(estimator, rows, y)
    found = []
    for name, columns in parts.items():
        scale = mean = error = None
        if scales is not None:
            scale = float(np.square(1.0 / scales[list(columns)]).sum() ** -0.5)
        if X is not None:
            moved = np.isin(np.arange(rows.shape[1]), list(columns))
            orders = [random.permutation(len(rows)) for _ in range(n_repeats)]
            dealt = (np.where(moved, rows[order], rows) for order in orders)
            lost = np.array([before - _log_prob(estimator, each, y) for each in dealt])
            mean, error = float(lost.mean()), _standard_error(lost, orders)
        found.append(Relevance(name, scale, mean, error))
    return found


def _lengthscales(model: DeepKernelProcess) -> np.ndarray | None:
    r"""Of the first layer in standard deviations of the inputs, ``(num_features,)``:
    :math:`\ell_d \sqrt{\nu_0}`, since inputs enter as :math:`x / \sqrt{\nu_0}`."""
    found = getattr((*model.layers, model.output)[0].kernel, "lengthscale", None)
    if not isinstance(found, torch.Tensor) or found.shape != (model.num_features,):
        return None
    return found.detach().cpu().double().numpy() * math.sqrt(model.num_features)


def _standard_error(lost: np.ndarray, orders: Sequence[np.ndarray]) -> float:
    """Of the mean of what rows ``lost``, ``(R, N)``, when given the values of others."""
    own, given = lost.mean(0), np.zeros(lost.shape[1])
    for each, order in zip(lost, orders, strict=True):
        given[order] += each / len(lost)
    variance = (own + given).var(ddof=1) - lost.var() / len(lost)
    return math.sqrt(max(variance, own.var(ddof=1)) / lost.shape[1])


def dependence(
    estimator: DeepKernelEstimator,
    X: np.ndarray,
    columns: Sequence[int],
    values: np.ndarray,
    *,
    num_functions: int = 100,
) -> Dependence:
    r"""Partial dependence, :math:`\frac1N \sum_n f(x_n)` with some ``columns`` of all rows set to
    each of G ``values``, ``(G, len(columns))``.

    Functions are drawn from the posterior jointly over all G N rows, which is cubic in them: a few
    hundred are a matter of seconds. The band is :math:`m \pm k s`, mean and standard deviation of
    the functions with the factor that holds 90% of them entirely; no probability leaves [0, 1], and
    no count is negative. Observation noise is not in the band.

    Args:
        estimator: a fitted estimator.
        X: rows to average over ``(N, num_features)``, in units of the data.
        columns: the columns to set.
        values: what to set them to.
        num_functions: functions to draw.
    """
    scaled, likelihood = estimator._scaled, estimator.model_.likelihood
    rows = np.repeat(X[None], len(values), axis=0)
    rows[:, :, list(columns)] = values[:, None, :]
    known, offset = estimator._separate_exposures(rows.reshape(-1, X.shape[1]))
    inputs = scaled.tensor(scaled.inputs.forward(known))
    generator = torch.Generator(scaled.model.device).manual_seed(estimator.seed_)
    drawn = scaled.model.sample_functions(inputs, num_functions, generator).functions
    drawn = drawn if offset is None else drawn + scaled.tensor(offset)
    law: Any = likelihood.distribution(drawn)
    classes, counts = (isinstance(likelihood, kind) for kind in (ClassLikelihood, CountLikelihood))
    # Classes have no mean but probabilities; of two, that of the second.
    expected = (law.probs if classes else law.mean).detach().cpu().double().numpy()
    curves = expected.reshape(num_functions, len(values), len(X), -1).mean(2)
    if curves.shape[-1] == len(scaled.targets.scale):
        curves = scaled.targets.inverse(curves)
    mean, spread = curves.mean(0), curves.std(0, ddof=1)
    distance = np.abs(curves - mean) / np.where(spread > 0, spread, 1.0)
    reach = conformal_quantile(distance.max(1), 0.9) * spread
    lowest, highest = 0.0 if classes or counts else -np.inf, 1.0 if classes else np.inf
    return Dependence(mean, *(np.clip(mean + side * reach, lowest, highest) for side in (-1, 1)))


def _log_prob(estimator: Any, rows: np.ndarray, y: Any) -> np.ndarray:
    """Log scores of rows without names, which are known to be in order."""
    names = estimator._names()
    if names is None:
        return estimator.log_prob(rows, y)
    import polars as pl

    return estimator.log_prob(pl.DataFrame(rows, schema=names), y)
