"""Which inputs matter, and how."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from deepwishart.plots.style import BLUE, GREY, colours, new_figure, plain_ticks, shorten, tidy

if TYPE_CHECKING:
    from deepwishart.estimators.relevance import Dependence, Relevance

_MOST = 20


def relevance(found: Sequence[Relevance]) -> Figure:
    """Bars for every input, the most important on top: what the log score loses without it, with
    one standard error, and the inverse of its lengthscale.

    Args:
        found: from :meth:`deepwishart.DeepKernelRegressor.relevance`; the first 20 are shown.

    >>> from deepwishart.estimators.relevance import Relevance
    >>> figure = relevance([Relevance("x", 2.0, 0.1, 0.02), Relevance("z", 0.5, 0.9, 0.1)])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['z', 'x']
    """
    panels: dict[str, tuple[list[float], list[float] | None]] = {}
    shown = sorted(found, key=_order)[:_MOST]
    if all(each.importance is not None for each in shown):
        lost = [each.importance or 0.0 for each in shown]
        panels["lost without it (nats per row)"] = (lost, [e.standard_error or 0.0 for e in shown])
    if all(each.lengthscale is not None for each in shown):
        inverse = [1.0 / (each.lengthscale or math.inf) for each in shown]
        panels["1 / lengthscale of the first layer"] = (inverse, None)
    if not panels:
        raise ValueError("There is neither an importance nor a lengthscale to show.")
    figure = new_figure(9.0, 1.0 + 0.3 * len(shown))
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    places = np.arange(len(shown))
    for panel, (label, (values, errors)), (_, colour) in zip(
        axes, panels.items(), colours(panels), strict=True
    ):
        panel.barh(places, values, xerr=errors, color=colour, ecolor=GREY, height=0.7)
        tidy(panel, xlabel=label)
        plain_ticks(panel.xaxis)
    axes[0].set_yticks(places, [shorten(each.name, 28) for each in shown])
    axes[0].invert_yaxis()
    return figure


def _order(one: Relevance) -> float:
    return -one.importance if one.importance is not None else one.lengthscale or 0.0


def partial_dependence(
    curves: Mapping[str, tuple[Sequence[Any], Dependence]],
    *,
    target: str = "target",
    column: int = 0,
) -> Figure:
    """The average prediction against each input in turn, with its band; points where the values are
    names.

    Args:
        curves: by input, the values it was set to (numbers, times or names) and what came of it.
        target: what is predicted, for the axis.
        column: which of several targets.

    >>> from deepwishart.estimators.relevance import Dependence
    >>> one = Dependence(np.array([[1.0], [2.0]]), np.array([[0.0], [1.0]]), np.array([[2.0], [3]]))
    >>> figure = partial_dependence({"x": ([0.0, 1.0], one)}, target="price")
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('x', 'price')
    """
    wide = min(3, len(curves))
    high = -(-len(curves) // wide)
    figure = new_figure(3.1 * wide if wide > 1 else 4.6, 2.5 * high + 0.2)
    panels = figure.subplots(high, wide, sharey=True, squeeze=False).ravel()
    for panel, (name, (values, found)) in zip(panels, curves.items(), strict=False):
        mean, lower, upper = (part[:, column] for part in found)
        if isinstance(values[0], str):
            places = np.arange(len(values))
            panel.errorbar(places, mean, [mean - lower, upper - mean], fmt="o", color=BLUE)
            turned: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
            names = [shorten(str(each), 14) for each in values]
            panel.set_xticks(places, names, **(turned if len(values) > 3 else {}))
            panel.margins(x=0.15)
        else:
            panel.fill_between(values, lower, upper, color=BLUE, alpha=0.2, linewidth=0)
            panel.plot(values, mean, color=BLUE)
            if isinstance(values[0], datetime.datetime):
                locator = AutoDateLocator(minticks=2, maxticks=5)
                panel.xaxis.set_major_locator(locator)
                panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))
            else:
                plain_ticks(panel.xaxis)
                panel.locator_params(axis="x", nbins=4)  # more would touch in a panel this narrow
        tidy(panel, xlabel=shorten(name, 32))
        plain_ticks(panel.yaxis)
    for panel in panels[::wide]:
        panel.set_ylabel(shorten(target, 32))
    for panel in panels[len(curves) :]:
        panel.set_visible(False)
    return figure
