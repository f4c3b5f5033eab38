"""What all pictures share: colours, sizes, frames."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from deepwishart._support.numbers import plain

# Okabe and Ito (2008), dark ones first; yellow is left out, it does not show on white.
_OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
BLUE, GREY = _OKABE_ITO[0], "#767676"
_TEXT, _SMALL = 10.0, 9.0


def colours(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each name with its colour, the same in every picture for the same order.

    >>> list(colours(["dwp", "dgp"]))
    [('dwp', '#0072B2'), ('dgp', '#D55E00')]
    """
    return zip(names, itertools.cycle(_OKABE_ITO), strict=False)


def shades(count: int) -> list[tuple[float, ...]]:
    """Colours for many lines of one kind, dark to light, none too light to show on white."""
    return [tuple(colour) for colour in colormaps["viridis"](np.linspace(0.0, 0.85, count))]


def as_array(values: Any) -> np.ndarray:
    """A tensor on any device, an array or a list, as an array of doubles."""
    plain = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    return np.asarray(plain, dtype=np.float64)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of the given size in inches, laid out so that labels do not overlap."""
    return Figure(figsize=(width, height), layout="constrained")


def legend_below(figure: Figure, handles: list[Any]) -> None:
    """One legend for all panels."""
    style: dict[str, Any] = {"loc": "outside lower center", "frameon": False, "fontsize": _SMALL}
    figure.legend(handles=handles, ncols=5, **style)


def key(label: str, **style: Any) -> Line2D:
    """An entry of a legend that stands for no line in particular."""
    return Line2D([], [], label=label, **style)


def plain_ticks(*axes: Axis) -> None:
    """Numbers beside an axis as people write them: 21,580 and not 2.158e4; few, for they are
    long."""
    for axis in axes:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(lambda value, _: plain(value, 6))


def shorten(text: str, most: int) -> str:
    r"""A name from a table that fits beside an axis, and is no mathematics to matplotlib.

    >>> print(shorten("a" * 9, 5), shorten("cost ($)", 20))
    aaaa… cost (\$)
    """
    line = " ".join(text.split())
    return (line if len(line) <= most else f"{line[: most - 1]}…").replace("$", "\\$")


def tidy(axes: Axes, *, title: str = "", xlabel: str = "", ylabel: str = "", **more: Any) -> Axes:
    """Labels in the house's sizes, and only the two frame lines that carry ticks."""
    axes.set_title(title, fontsize=_TEXT, loc="left")
    axes.set_xlabel(xlabel, fontsize=_TEXT)
    axes.set_ylabel(ylabel, fontsize=_TEXT)
    axes.tick_params(labelsize=_SMALL)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set(**more)
    return axes
