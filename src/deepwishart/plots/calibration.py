"""Whether predictions come true, and probabilities mean what they say."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deepwishart.metrics import CalibrationCurve, Reliability
from deepwishart.plots.style import (
    BLUE,
    GREY,
    colours,
    new_figure,
    plain_ticks,
    shorten,
    tidy,
)

_MOST_BARS = 500


def calibration(curves: Mapping[str, CalibrationCurve], *, num_rows: int) -> Figure:
    r"""Fraction of targets below their predicted quantile, against the quantile's probability
    :math:`p`.

    A calibrated prediction follows the diagonal. The band is where nine in ten curves of a
    calibrated prediction would pass at any one :math:`p`, :math:`p \pm 1.64 \sqrt{p(1-p)/N}`.

    Args:
        curves: from :func:`deepwishart.metrics.calibration_curve`, by name of the model.
        num_rows: number of targets N behind each curve.

    >>> levels = np.linspace(0.1, 0.9, 9)
    >>> figure = calibration({"dwp": CalibrationCurve(levels, levels**1.1)}, num_rows=50)
    >>> figure.axes[0].get_xlabel()
    'predicted probability'
    """
    figure = new_figure(4.6, 4.4)
    axes = figure.subplots()
    p = np.linspace(0.0, 1.0, 101)
    spread = 1.645 * np.sqrt(p * (1 - p) / num_rows)
    low, high, label = p - spread, p + spread, f"expected scatter of {num_rows} rows"
    axes.fill_between(p, low.clip(0), high.clip(max=1), color=GREY, alpha=0.2, lw=0, label=label)
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="calibrated")
    for marker, (name, colour) in zip(itertools.cycle("osD^v"), colours(curves), strict=False):
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4, "label": name}
        axes.plot(curves[name].levels, curves[name].observed, **style)
    _frame(axes, "Calibration", "fraction of held-out targets below", (0, 1))
    return figure


def reliability(curves: Mapping[str, Reliability]) -> Figure:
    r"""How often a class was the true one, against the probability that was said.

    Points of a calibrated prediction lie on the diagonal, up to the bars: two standard errors
    :math:`2 \sqrt{p (1 - p) / n}` of the n predictions behind a point, were it calibrated. Larger
    points have more predictions behind them.

    Args:
        curves: from :func:`deepwishart.metrics.reliability`, by name of the model.

    >>> curve = Reliability(np.array([0.1, 0.8]), np.array([0.2, 0.8]), np.array([30, 20]))
    >>> reliability({"dwp": curve}).axes[0].get_xlabel()
    'predicted probability'
    """
    figure = new_figure(4.6, 4.4)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="calibrated")
    for marker, (name, colour) in zip(itertools.cycle("osD^v"), colours(curves), strict=False):
        said, happened, number = curves[name]
        error = 2 * np.sqrt(said * (1 - said) / number)
        low, high = np.minimum(error, said), np.minimum(error, 1 - said)
        axes.errorbar(said, said, [low, high], fmt="none", ecolor=GREY, alpha=0.5, capsize=3)
        axes.plot(said, happened, color=colour, linewidth=1)
        size = 15 + 120 * number / number.max()
        axes.scatter(said, happened, size, color=colour, marker=marker, label=name, zorder=3)
    _frame(axes, "Reliability", "fraction of held-out rows in the class", (-0.03, 1.03))
    return figure


def against_truth(
    mean: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    truth: np.ndarray,
    *,
    target: str = "target",
) -> Figure:
    """True values against predicted ones, with 90% intervals; a perfect prediction is on the
    diagonal.

    Args:
        mean: predictions ``(N,)``.
        lower, upper: ends of their intervals ``(N,)``; drawn for 500 rows at most.
        truth: true values ``(N,)``.
        target: what is predicted, for the axes.

    >>> m = np.array([1.0, 2.0])
    >>> against_truth(m, m - 1, m + 1, m, target="price").axes[0].get_xlabel()
    'predicted price'
    """
    figure = new_figure(4.8, 4.6)
    axes = figure.subplots()
    ends = [min(mean.min(), truth.min()), max(mean.max(), truth.max())]
    axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1)
    chosen = np.linspace(0, len(mean) - 1, min(len(mean), _MOST_BARS)).astype(int)
    # The interval is about the target, so it stands at the prediction and points up and down.
    bars: dict[str, Any] = {"color": BLUE, "alpha": 0.2, "lw": 1.5, "label": "90% interval"}
    axes.vlines(mean[chosen], lower[chosen], upper[chosen], **bars)
    dots = axes.plot(mean, truth, "o", color=BLUE, markersize=3, alpha=0.7, label="held-out row")
    dots[0].set_rasterized(len(mean) > 2 * _MOST_BARS)
    name = shorten(target, 32)
    tidy(axes, title="Truth", xlabel=f"predicted {name}", ylabel=f"true {name}")
    plain_ticks(axes.xaxis, axes.yaxis)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def _frame(axes: Axes, title: str, ylabel: str, limits: tuple[float, float]) -> None:
    square: dict[str, Any] = {"xlim": limits, "ylim": limits, "aspect": "equal"}
    tidy(axes, title=title, xlabel="predicted probability", ylabel=ylabel, **square)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
