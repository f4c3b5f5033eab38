"""The course of training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deepwishart.plots.style import GREY, colours, legend_below, new_figure, tidy
from deepwishart.training import History


def training_curves(histories: Mapping[str, History], *, window: int | None = None) -> Figure:
    r"""ELBO and noise against the number of steps, one line per model.

    The thin line is the estimate of every step, the thick one its mean over the last ``window``
    steps. While the Kullback--Leibler term fades in (shaded), the objective is no bound, lies far
    too high and is left out, unless training ended there.

    Args:
        histories: training histories by name of the model.
        window: steps to average over; a fiftieth of the run if ``None``.

    >>> history = History()
    >>> for step in range(100):
    ...     history.append(step, -1.0 / (step + 1), min(1.0, step / 10), 1e-2, 0.5, 0.1 * step)
    >>> figure = training_curves({"dwp": history})
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['ELBO (nats per row)', 'noise (standardised units)']
    """
    most = max(max(history.noise, default=0.0) for history in histories.values())
    figure = new_figure(9.0 if most else 5.5, 3.7)
    bound, *rest = figure.subplots(1, 2 if most else 1, squeeze=False)[0]
    first_bounds = [_first_bound(history) for history in histories.values()]
    for start, (name, colour) in zip(first_bounds, colours(histories), strict=True):
        history = histories[name]
        width = window or max(1, len(history) // 50)
        steps, bounds = history.step[start:], History(elbo=history.elbo[start:])
        bound.plot(steps, bounds.elbo, color=colour, linewidth=0.5, alpha=0.3)
        bound.plot(steps, bounds.elbo_smoothed(width), color=colour, label=name)
        for noise in rest:
            noise.plot(history.step, history.noise, color=colour, label=name)
    _frame(bound, list(histories.values()), first_bounds)
    tidy(bound, title="Evidence lower bound", xlabel="training step", ylabel="ELBO (nats per row)")
    for noise in rest:
        labels = {"xlabel": "training step", "ylabel": "noise (standardised units)"}
        tidy(noise, title="Learned noise", ylim=(0.0, 1.1 * most), **labels)
    for axes in (bound, *rest):
        axes.margins(x=0.01)
    legend_below(figure, bound.get_legend_handles_labels()[0])
    return figure


def _first_bound(history: History) -> int:
    """Where the objective becomes a bound; 0 if it never does, since something has to be shown."""
    return next((n for n, weight in enumerate(history.kl_weight) if weight >= 1), 0)


def _frame(axes: Axes, histories: list[History], first_bounds: list[int]) -> None:
    """Mark where the objective is no bound, and let no outlier of the first steps set the range."""
    if max(first_bounds):
        label = "KL term fades in: no bound yet"
        axes.axvspan(0, max(first_bounds), color=GREY, alpha=0.15, linewidth=0, label=label)
    shown = [history.elbo[start:] for history, start in zip(histories, first_bounds, strict=True)]
    low, high = np.quantile(np.concatenate(shown), [0.01, 1.0])
    margin = 0.1 * max(high - low, 1e-3)
    axes.set_ylim(low - margin, high + margin)
