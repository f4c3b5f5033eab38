"""Matplotlib figures as SVG that a page can hold and a pointer can ask."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from deepwishart.plots.style import GREY, colours, key, new_figure
from deepwishart.reproduction.report.reading import PROCESSES
from deepwishart.reproduction.report.tables import label

_COLOURS = dict(colours(PROCESSES))
_NO_METADATA = dict.fromkeys(["Creator", "Date", "Format", "Type"])


def colour(process: str) -> str:
    """The colour of a process, the same in every picture."""
    return _COLOURS.get(process, GREY)


class Picture:
    """A figure, its size in inches, whose points say what they are when the pointer rests there."""

    def __init__(self, width: float, height: float) -> None:
        self.figure = new_figure(width, height)
        self._tips: dict[str, str] = {}

    def point(self, axes: Axes, x: float, y: float, tip: str, **style: Any) -> None:
        """Draw a point that has a description."""
        name = f"tip{len(self._tips)}"
        self._tips[name] = tip
        axes.plot([x], [y], **{"marker": "o", **style}, gid=name)

    def legend(self, processes: Iterable[str], more: Iterable[Line2D] = ()) -> None:
        """One legend for all panels, above them: of processes, and what else there is."""
        keys = [*(key(label(p), marker="o", color=colour(p)) for p in processes), *more]
        style: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "columnspacing": 1.1}
        self.figure.legend(
            handles=keys, loc="outside upper right", ncols=len(keys), handlelength=1.6, **style
        )

    def svg(self, title: str) -> str:
        """An SVG element that is the same for the same drawing: no date, no random names. The title
        is for those who cannot see it, and makes names inside unlike those of other pictures."""
        buffer = io.StringIO()
        with rc_context({"svg.hashsalt": title, "svg.fonttype": "none"}):
            self.figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
        text = buffer.getvalue()
        text = text[text.index("<svg") :]
        text = text.replace("<svg", f'<svg role="img" aria-label="{html.escape(title)}"', 1)
        return re.sub(r'<g id="([^"]*)">', self._group, text)

    def _group(self, match: re.Match[str]) -> str:
        """A group without its name, which would not be the only one on a page, but with its tip."""
        tip = self._tips.get(match[1])
        return "<g>" if tip is None else f"<g><title>{html.escape(tip)}</title>"
