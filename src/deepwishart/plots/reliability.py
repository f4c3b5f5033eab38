"""Whether probabilities of classes mean what they say."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from deepwishart.pipeline.class_scores import Reliability
from deepwishart.plots.style import GREY, colours, new_figure, tidy


def reliability(curves: Mapping[str, Reliability]) -> Figure:
    r"""How often a class was the true one, against the probability that was said.

    Points of a calibrated prediction lie on the diagonal, up to the bars: two standard errors
    :math:`2 \sqrt{p (1 - p) / n}` of the n predictions behind a point, were it calibrated. Larger
    points have more predictions behind them.

    Args:
        curves: from :func:`deepwishart.pipeline.reliability`, by name of the model.

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
    tidy(
        axes,
        title="Reliability",
        xlabel="predicted probability",
        ylabel="fraction of held-out rows in the class",
        xlim=(-0.03, 1.03),
        ylim=(-0.03, 1.03),
        aspect="equal",
    )
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return figure
