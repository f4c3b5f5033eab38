"""Small charts as SVG, drawn by hand so that a page can hold them and a pointer can ask them.

Every point carries its description in ``data-tip``, which the page shows when the pointer is over
it. Texts are escaped here, once.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["COLOURS", "Frame", "colour", "picture", "ticks"]

# Okabe and Ito (2008), told apart by everyone.
COLOURS = {"dwp": "#0072B2", "dgp": "#D55E00", "diwp": "#009E73", "dsvi": "#CC79A7"}
_OTHER, _INK, _SOFT, _GRID = "#555555", "#1f2933", "#5f6b7a", "#e4e8ee"


def colour(process: str) -> str:
    """The colour of a process, the same in every chart.

    >>> colour("dwp")
    '#0072B2'
    """
    return COLOURS.get(process, _OTHER)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two numbers: multiples of 1, 2 or 5 times a power of ten.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    factors = (factor * step for factor in (1, 2, 5, 10, 20))
    step = next(size for size in factors if (high - low) / size <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    return [round(number * step, digits) for number in range(first, last + 1)]


class Frame:
    """A pair of axes.

    Args:
        box: left, top, width and height of the area inside the axes.
        x_range: first and last x.
        y_range: lowest and highest y; points outside are drawn on the edge, lines are cut off.
        title: above the axes.
        x_label: below.
        x_ticks: where; round numbers by default.
        name: of this frame, unlike that of any other on the page.

    >>> frame = Frame((40, 20, 100, 50), (0, 1), (0, 2), title="a < b", x_label="x", name="f")
    >>> frame.point(0.5, 1.0, "#000", "the middle")
    >>> 'cx="90.0" cy="45.0"' in frame.svg(), "a &lt; b" in frame.svg()
    (True, True)
    """

    def __init__(
        self,
        box: tuple[float, float, float, float],
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        *,
        title: str,
        x_label: str,
        name: str,
        x_ticks: Sequence[float] | None = None,
    ) -> None:
        self._box, self._x_range, self._y_range = box, _widen(x_range), _widen(y_range)
        self._title, self._x_label, self._name = title, x_label, name
        self._x_ticks = ticks(*self._x_range) if x_ticks is None else x_ticks
        self._parts: list[str] = []

    def line(
        self, points: Iterable[tuple[float, float]], colour: str, *, dashed: bool = False
    ) -> None:
        """A line through points, cut off at the edges of the frame."""
        places = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points)
        style = ' stroke-dasharray="3 3" stroke-width="1.2"' if dashed else ' stroke-width="1.8"'
        self._parts.append(
            f'<polyline clip-path="url(#{html.escape(self._name)})" points="{places}" fill="none" '
            f'stroke="{colour}" stroke-linejoin="round"{style}/>'
        )

    def error_bar(self, x: float, low: float, high: float, colour: str) -> None:
        """An upright bar."""
        x, top, bottom = self._x(x), self._y(self._inside(high)), self._y(self._inside(low))
        self._parts.append(
            f'<path d="M{x:.1f} {top:.1f}V{bottom:.1f}" stroke="{colour}" stroke-width="1.8"/>'
        )

    def point(self, x: float, y: float, colour: str, tip: str, *, kind: str = "run") -> None:
        """A point with a description.

        Args:
            x: where.
            y: where.
            colour: of the point.
            tip: description, of one or more lines.
            kind: ``"run"`` (small and pale), ``"mean"`` (large), ``"paper"`` (hollow) or
                ``"hidden"`` (seen only under the pointer).
        """
        x, y = self._x(x), self._y(self._inside(y))
        tip = html.escape(tip).replace("\n", "&#10;")
        common = f'class="point {kind}" data-tip="{tip}"'
        if kind == "paper":
            shape = f"M{x:.1f} {y - 4.5:.1f}l4.5 4.5-4.5 4.5-4.5-4.5z"
            style = f'fill="#fff" stroke="{colour}" stroke-width="1.4"'
            self._parts.append(f'<path {common} d="{shape}" {style}/>')
            return
        radius = {"run": "2.5", "mean": "4.2", "hidden": "4.5"}[kind]
        opacity = {"run": ' fill-opacity=".3"', "mean": "", "hidden": ' fill-opacity="0"'}[kind]
        self._parts.append(
            f'<circle {common} cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"{opacity}/>'
        )

    def svg(self) -> str:
        """The frame, with its axes beneath what was drawn in it."""
        left, top, width, height = self._box
        bottom, name = top + height, html.escape(self._name)
        parts = [
            f'<clipPath id="{name}"><rect x="{left}" y="{top}" width="{width}" '
            f'height="{height}"/></clipPath>',
            _text(left, top - 10, self._title, "start", _INK, ' font-weight="600"'),
            _text(left + width / 2, bottom + 34, self._x_label, "middle", _SOFT),
        ]
        for y, text in _labelled(ticks(*self._y_range)):
            place = self._y(y)
            parts.append(f'<path d="M{left} {place:.1f}h{width}" stroke="{_GRID}"/>')
            parts.append(_text(left - 7, place + 4, text, "end", _SOFT))
        for x, text in _labelled(self._x_ticks):
            parts.append(f'<path d="M{self._x(x):.1f} {bottom}v4" stroke="{_SOFT}"/>')
            parts.append(_text(self._x(x), bottom + 17, text, "middle", _SOFT))
        parts.append(f'<path d="M{left} {bottom}h{width}" stroke="{_SOFT}"/>')
        return "\n".join(parts + self._parts)

    def _x(self, x: float) -> float:
        left, _, width, _ = self._box
        low, high = self._x_range
        return left + width * (x - low) / (high - low)

    def _y(self, y: float) -> float:
        _, top, _, height = self._box
        low, high = self._y_range
        return top + height * (high - y) / (high - low)

    def _inside(self, y: float) -> float:
        return min(max(y, self._y_range[0]), self._y_range[1])


def picture(
    frames: Sequence[Frame], size: tuple[float, float], legend: Mapping[str, str], title: str
) -> str:
    """Frames and a legend as one SVG element, for a page.

    Args:
        frames: to be drawn.
        size: width and height.
        legend: texts with their colours, in a row at the top; the text ``"paper"`` gets the hollow
            symbol of published numbers.
        title: what the picture shows, for those who cannot see it.

    >>> picture([], (100, 50), {"DWP": colour("dwp")}, "nothing").startswith("<svg")
    True
    """
    width, height = size
    label = html.escape(title)
    parts = [
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{label}" font-family="system-ui, sans-serif" font-size="12">',
    ]
    ends = list(itertools.accumulate((7.5 * len(text) + 26 for text in legend), initial=0.0))
    for start, (text, shade) in zip(ends, legend.items(), strict=False):
        x = width - 12 - ends[-1] + start
        symbol = (
            f'<path d="M{x:.1f} 11.5l4.5 4.5-4.5 4.5-4.5-4.5z" fill="#fff" stroke="{shade}"/>'
            if text == "paper"
            else f'<circle cx="{x:.1f}" cy="16" r="4.2" fill="{shade}"/>'
        )
        parts += [symbol, _text(x + 9, 20, text, "start", _INK)]
    return "\n".join([*parts, *(frame.svg() for frame in frames), "</svg>"])


def _widen(limits: tuple[float, float]) -> tuple[float, float]:
    """Limits that differ."""
    low, high = limits
    if high - low > 1e-9 * max(1.0, abs(low), abs(high)):
        return limits
    room = 0.05 * max(1.0, abs(low))
    return low - room, high + room


def _text(x: float, y: float, text: str, anchor: str, shade: str, style: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{shade}"{style}>'
        f"{html.escape(text)}</text>"
    )


def _labelled(values: Sequence[float]) -> list[tuple[float, str]]:
    """Numbers with their texts, all to as many decimals as the longest one needs."""
    decimals = max((len(f"{value:.10g}".partition(".")[2]) for value in values), default=0)
    return [(v, f"{v:,.{decimals}f}".replace("-", "\N{MINUS SIGN}")) for v in values]
