"""Which inputs a fitted estimator uses, and how its prediction depends on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from deepwishart.likelihoods import ClassLikelihood

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

    def lost(self) -> str:
        """The importance in words, with its error."""
        if self.importance is None or self.standard_error is None:
            return ""
        return f"{round(self.importance, 3) + 0.0:.3f} ± {self.standard_error:.3f}"  # no -0.000


class Dependence(NamedTuple):
    """The average prediction where an input is set to each of G values, ``(G, D)``, with the ends
    of a band that 90% of the functions drawn from the posterior stay within."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def lengthscales(estimator: DeepKernelEstimator) -> np.ndarray | None:
    r"""Lengthscales of the first layer in standard deviations of the inputs, ``(num_features,)``:
    :math:`\ell_d \sqrt{\nu_0}`, since inputs enter as :math:`x / \sqrt{\nu_0}`."""
    model = estimator.model_
    kernel = (*model.layers, model.output)[0].kernel
    found = getattr(kernel, "lengthscale", None)
    if not isinstance(found, torch.Tensor) or found.shape != (model.num_features,):
        return None
    return found.detach().cpu().double().numpy() * math.sqrt(model.num_features)


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
    rows of :math:`\delta_n = \log p(y_n \mid x_n) - \frac1R \sum_r \log p(y_n \mid x_n^{(r)})`,
    with standard error :math:`s(\delta) / \sqrt N`.

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
    scales, random = lengthscales(estimator), np.random.default_rng(random_state)
    if X is not None:
        rows = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        before = _log_prob(estimator, rows, y)
    found = []
    for name, columns in parts.items():
        scale = mean = error = None
        if scales is not None:
            scale = float(np.square(1.0 / scales[list(columns)]).sum() ** -0.5)
        if X is not None:
            after = []
            for _ in range(n_repeats):
                shuffled, order = rows.copy(), random.permutation(len(rows))
                shuffled[:, list(columns)] = rows[order][:, list(columns)]
                after.append(_log_prob(estimator, shuffled, y))
            change = before - np.mean(after, axis=0)
            mean, error = float(change.mean()), float(change.std(ddof=1) / math.sqrt(len(change)))
        found.append(Relevance(name, scale, mean, error))
    return found


def dependence(
    estimator: DeepKernelEstimator,
    X: np.ndarray,
    columns: Sequence[int],
    values: np.ndarray,
    *,
    num_functions: int = 50,
) -> Dependence:
    r"""Partial dependence, :math:`\frac1N \sum_n f(x_n)` with some ``columns`` of all rows set to
    each of G ``values``, ``(G, len(columns))``.

    Functions are drawn from the posterior jointly over all G N rows, which is cubic in them: a few
    hundred are a matter of a second. Observation noise is not in the band.

    Args:
        estimator: a fitted estimator.
        X: rows to average over ``(N, num_features)``, in units of the data.
        columns: the columns to set.
        values: what to set them to.
        num_functions: functions to draw.
    """
    scaled, shape = estimator._scaled, (len(values), len(X))
    rows = np.repeat(X[None], len(values), axis=0)
    rows[:, :, list(columns)] = values[:, None, :]
    inputs = scaled.tensor(scaled.inputs.forward(rows.reshape(-1, X.shape[1])))
    generator = torch.Generator(scaled.model.device).manual_seed(estimator.seed_)
    drawn = scaled.model.sample_functions(inputs, num_functions, generator).functions
    law: Any = scaled.model.likelihood.distribution(drawn)
    # Classes have no mean but probabilities; of two, that of the second.
    expected = law.probs if isinstance(scaled.model.likelihood, ClassLikelihood) else law.mean
    expected = expected.detach().cpu().double().numpy()
    curves = expected.reshape(num_functions, *shape, -1).mean(2)
    if curves.shape[-1] == len(scaled.targets.scale):
        curves = scaled.targets.inverse(curves)
    lower, upper = np.quantile(curves, [0.05, 0.95], axis=0)
    return Dependence(curves.mean(0), lower, upper)


def _log_prob(estimator: Any, rows: np.ndarray, y: Any) -> np.ndarray:
    """Log scores of rows without names, which are known to be in order."""
    names = estimator._names()
    if names is None:
        return estimator.log_prob(rows, y)
    import polars as pl

    return estimator.log_prob(pl.DataFrame(rows, schema=names), y)
