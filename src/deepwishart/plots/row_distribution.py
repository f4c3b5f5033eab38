"""The whole prediction of one row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from deepwishart.metrics import MixturePrediction
from deepwishart.plots.style import as_array, colours, new_figure, tidy

__all__ = ["row_distribution"]


def row_distribution(
    predictions: Mapping[str, MixturePrediction],
    row: int,
    *,
    column: int = 0,
    truth: float | None = None,
    coverage: float = 0.9,
    target: str = "target",
) -> Figure:
    r"""Predictive density of one row, the mixture over posterior samples

    .. math:: p(y) = \frac1S \sum_s \mathcal N(y; m_s, s_s^2),

    with its central interval and median. It may well have two peaks or a long tail, which a mean
    and a standard deviation would hide.

    Args:
        predictions: by name of the model, what ``predict`` or ``predict_distribution`` returns.
        row: number of the row, from 0.
        column: number of the target column, from 0.
        truth: what came true, if it is known.
        coverage: probability of the interval that is shaded.
        target: the target with its unit, for the axis.

    >>> import torch
    >>> import deepwishart as dw
    >>> X = torch.linspace(-1, 1, 8, dtype=torch.float64)[:, None]
    >>> prediction = dw.build("dwp", X, X, num_inducing=4).predict(X, num_samples=5)
    >>> figure = row_distribution({"dwp": prediction}, row=3, truth=0.1, target="price (EUR)")
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('price (EUR)', 'density (per unit of target)')
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie strictly between 0 and 1, got {coverage}.")
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    for name, colour in colours(predictions):
        mean, stddev = _components(predictions[name], row, column, name)
        y = np.linspace((mean - 4.5 * stddev).min(), (mean + 4.5 * stddev).max(), 2001)
        density = _density(y, mean, stddev)
        reached = np.cumsum(density) / density.sum()
        tail = 0.5 * (1.0 - coverage)
        low, median, high = np.interp([tail, 0.5, 1.0 - tail], reached, y)
        inside = (y >= low) & (y <= high)
        label = f"{name}: {coverage:.0%} interval {low:.3g} to {high:.3g}"
        axes.plot(y, density, color=colour, label=label)
        axes.fill_between(y[inside], density[inside], color=colour, alpha=0.12, linewidth=0)
        peak = float(_density(np.array([median]), mean, stddev)[0])
        axes.vlines(median, 0.0, peak, color=colour, linestyle=":")
    if truth is not None:
        axes.axvline(truth, color="black", linestyle="--", label=f"truth: {truth:.3g}")
    axes.set_ylim(bottom=0.0)
    tidy(
        axes,
        title=f"Prediction of row {row} (dotted: median)",
        xlabel=target,
        ylabel="density (per unit of target)",
    )
    figure.legend(loc="outside lower center", ncols=1, frameon=False, fontsize=9)
    return figure


def _density(y: np.ndarray, mean: np.ndarray, stddev: np.ndarray) -> np.ndarray:
    z = (y[:, None] - mean) / stddev
    return (np.exp(-0.5 * z**2) / (stddev * np.sqrt(2 * np.pi))).mean(1)


def _components(
    prediction: MixturePrediction, row: int, column: int, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations ``(S,)`` of one row; only its chunk is looked at."""
    if not isinstance(prediction, MixturePrediction):
        raise ValueError(
            f"The prediction of {name} must know its components, as those of predict() and "
            f"predict_distribution() do; got a {type(prediction).__name__}."
        )
    start = 0
    for mean, stddev in prediction.components():
        size, columns = mean.shape[1:]
        if not 0 <= column < columns:
            raise ValueError(f"{name} predicts {columns} columns, there is no column {column}.")
        if 0 <= row - start < size:
            place = (slice(None), row - start, column)
            return as_array(mean[place]), as_array(stddev[place])
        start += size
    raise ValueError(f"{name} predicts {start} rows, there is no row {row}.")
