"""Predictions with their error bars, beside what came true."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from deepwishart.plots.style import colours, key, legend_below, new_figure, tidy


def predictions(
    models: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    truth: np.ndarray,
    *,
    target: str = "target",
    coverage: float = 0.9,
) -> Figure:
    r"""Rows in the order of their predicted centre, with intervals and true values.

    True values outside their interval are crosses; with calibrated intervals of probability
    :math:`c`, a fraction :math:`1 - c` of rows is expected to be.

    Args:
        models: by name, centre, lower and upper end of the interval, ``(N,)`` each.
        truth: true values ``(N,)``.
        target: what is predicted, with its unit, for the axis.
        coverage: probability :math:`c` of the intervals.

    >>> centre, truth = np.array([1.0, 2.0, 3.0]), np.array([1.5, 2.0, 9.0])
    >>> figure = predictions({"dwp": (centre, centre - 1, centre + 1)}, truth, target="price (EUR)")
    >>> figure.axes[0].get_ylabel()
    'price (EUR)'
    """
    figure = new_figure(9.0, 3.6)
    panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
    for axes, (name, colour) in zip(panels, colours(models), strict=True):
        order = np.argsort(models[name][0])
        centre, lower, upper = (np.asarray(part)[order] for part in models[name])
        values = np.asarray(truth)[order]
        rank = np.arange(1, len(values) + 1)
        inside = (lower <= values) & (values <= upper)
        axes.vlines(rank, lower, upper, color=colour, alpha=0.35, linewidth=2.0)
        axes.plot(rank, centre, color=colour, linewidth=1.5)
        axes.plot(rank[inside], values[inside], "o", color="black", markersize=3)
        axes.plot(rank[~inside], values[~inside], "x", color="black", markersize=6)
        tidy(
            axes,
            title=f"{name}: {inside.mean():.0%} of rows inside",
            xlabel="held-out row, by predicted value",
            ylabel=target if axes is panels[0] else "",
        )
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    handles = [
        key("prediction", color="black", linewidth=1.5),
        key(f"{coverage:.0%} interval", color="black", alpha=0.35, linewidth=5),
        key("truth inside", color="black", marker="o", markersize=3, linestyle=""),
        key("truth outside", color="black", marker="x", markersize=6, linestyle=""),
    ]
    legend_below(figure, handles)
    return figure
