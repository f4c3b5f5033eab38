"""Predictions with their error bars, beside what came true, and what is left over."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from deepwishart.plots.style import BLUE, GREY, new_figure, plain_ticks, shorten, tidy

_MOST_BARS = 500


def against_truth(
    mean: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    truth: np.ndarray,
    *,
    target: str = "target",
    coverage: float = 0.9,
) -> Figure:
    """True values against predicted ones, with intervals; a perfect prediction is on the diagonal.

    Args:
        mean: predictions ``(N,)``.
        lower, upper: ends of their intervals ``(N,)``; drawn for 500 rows at most.
        truth: true values ``(N,)``.
        target: what is predicted, for the axes.
        coverage: probability of the intervals.

    >>> m = np.array([1.0, 2.0])
    >>> against_truth(m, m - 1, m + 1, m, target="price").axes[0].get_xlabel()
    'predicted price'
    """
    figure = new_figure(4.8, 4.6)
    axes = figure.subplots()
    ends = [min(mean.min(), truth.min()), max(mean.max(), truth.max())]
    axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=1)
    chosen = np.linspace(0, len(mean) - 1, min(len(mean), _MOST_BARS)).astype(int)
    label = f"{coverage:.0%} interval"
    # The interval is about the target, so it stands at the prediction and points up and down.
    axes.vlines(
        mean[chosen], lower[chosen], upper[chosen], color=BLUE, alpha=0.2, lw=1.5, label=label
    )
    dots = axes.plot(mean, truth, "o", color=BLUE, markersize=3, alpha=0.7, label="held-out row")
    dots[0].set_rasterized(len(mean) > 2 * _MOST_BARS)
    name = shorten(target, 32)
    tidy(axes, title="Truth", xlabel=f"predicted {name}", ylabel=f"true {name}")
    plain_ticks(axes.xaxis, axes.yaxis)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def residuals(
    mean: np.ndarray, stddev: np.ndarray, truth: np.ndarray, *, target: str = "target"
) -> Figure:
    """Residuals in predicted standard deviations: against the prediction, and their histogram
    beside the normal density. Nine in ten should lie within the dashed lines.

    Args:
        mean, stddev: predictions ``(N,)``.
        truth: true values ``(N,)``.
        target: what is predicted, for the axis.

    >>> figure = residuals(np.zeros(3), np.ones(3), np.array([-1.0, 0.5, 2.0]))
    >>> figure.axes[0].get_ylabel()
    'residual / standard deviation'
    """
    figure = new_figure(9.0, 3.4)
    scatter, bars = figure.subplots(1, 2, sharey=True, width_ratios=(2.6, 1))
    values = (truth - mean) / stddev
    dots = scatter.plot(mean, values, "o", color=BLUE, markersize=3, alpha=0.7)
    dots[0].set_rasterized(len(mean) > 2 * _MOST_BARS)
    for axes in (scatter, bars):
        axes.axhline(0.0, color=GREY, linewidth=1)
        for end in (-1.645, 1.645):
            axes.axhline(end, color=GREY, linewidth=1, linestyle="--")
    bars.hist(
        values, bins="auto" if len(values) < 5000 else 60, density=True, orientation="horizontal",
        color=BLUE, alpha=0.5,
    )  # fmt: skip
    z = np.linspace(min(-3.0, values.min()), max(3.0, values.max()), 200)
    bars.plot(np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi), z, color=GREY)
    name = shorten(target, 32)
    ylabel = "residual / standard deviation"
    tidy(scatter, title="Residuals", xlabel=f"predicted {name}", ylabel=ylabel)
    tidy(bars, xlabel="density")
    plain_ticks(scatter.xaxis, scatter.yaxis)
    return figure
