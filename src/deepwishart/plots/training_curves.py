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
    steps. While the Kullback--Leibler term fades in (shaded) the objective is no bound and lies too
    high; the vertical axis shows the range after it.

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
    for (name, colour), history in zip(colours(histories), histories.values(), strict=True):
        width = window or max(1, len(history) // 50)
        bound.plot(history.step, history.elbo, color=colour, linewidth=0.5, alpha=0.3)
        bound.plot(history.step, history.elbo_smoothed(width), color=colour, label=name)
        for noise in rest:
            noise.plot(history.step, history.noise, color=colour, label=name)
    _shade_annealing(bound, histories)
    tidy(bound, title="Evidence lower bound", xlabel="training step", ylabel="ELBO (nats per row)")
    for noise in rest:
        labels = {"xlabel": "training step", "ylabel": "noise (standardised units)"}
        tidy(noise, title="Learned noise", **labels)
        noise.set_ylim(0.0, 1.1 * most)
    for axes in (bound, *rest):
        axes.margins(x=0.01)
    legend_below(figure, bound.get_legend_handles_labels()[0])
    return figure


def _shade_annealing(axes: Axes, histories: Mapping[str, History]) -> None:
    """Mark where the objective is no bound, and choose limits by what comes after it."""
    ends = [sum(weight < 1 for weight in history.kl_weight) for history in histories.values()]
    comparable = np.concatenate(
        [history.elbo[end:] for history, end in zip(histories.values(), ends, strict=True)]
    )
    if max(ends):
        axes.axvspan(0, max(ends), color=GREY, alpha=0.15, linewidth=0, label="KL term fades in")
    if comparable.size:
        low, high = np.quantile(comparable, [0.01, 1.0])
        margin = 0.1 * max(high - low, 1e-3)
        axes.set_ylim(low - margin, high + margin)
