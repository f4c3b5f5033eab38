"""Predictions with their error bars, beside what came true."""

from __future__ import annotations

from typing import Any

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
