"""HTML pages that need no other file and ask nothing of any network, in light and dark."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours of pictures, and what the style calls them in light and in dark.
_COLOURS = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#0072b2": "var(--blue)",
    "#d55e00": "var(--orange)",
    "#009e73": "var(--green)",
    "#cc79a7": "var(--pink)",
    "#767676": "var(--grey)",
}
# The page is allowed what it brings along, and nothing else.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def style() -> str:
    """What all pages look like."""
    return resources.files(__package__).joinpath("page.css").read_text("utf-8")


def make_page(title: str, body: Iterable[str]) -> str:
    """A page of parts that are HTML already."""
    heading = html.escape(title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{heading}</title>\n<style>\n{style()}</style>\n</head>\n<body>\n"
        f"<h1>{heading}</h1>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], best: Sequence[int | None] = ()
) -> str:
    """A table; ``best`` names the cell of each row, from 0 on, that is to be seen first."""
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    lines = []
    for index, row in enumerate(rows):
        first = best[index] if index < len(best) else None
        cells = (
            f"<td{' class=best' if place == first else ''}>{html.escape(cell)}</td>"
            for place, cell in enumerate(row)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(lines)
    return (
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def recolour(svg: str) -> str:
    """A picture in the colours of the page that it stands on.

    >>> recolour('<path style="stroke: #0072b2; fill: #000000"/>')
    '<path style="stroke: var(--blue); fill: currentColor"/>'
    """
    return re.sub(r"#[0-9a-fA-F]{6}", lambda m: _COLOURS.get(m[0].lower(), m[0]), svg)


def picture(figure: Figure, caption: str = "", alt: str = "") -> str:
    """A matplotlib figure as an SVG element, with a caption and words for those who cannot see."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    options: dict[str, Any] = {"metadata": {"Date": None, "Creator": None}, "transparent": True}
    with mpl.rc_context({"svg.hashsalt": alt, "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", dpi=120, **options)
    svg = buffer.getvalue().decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    label = f'<svg role="img" aria-label="{html.escape(alt)}"'
    svg = recolour(svg).replace("<svg", label, 1)
    words = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    return f"<figure>\n{svg}{words}</figure>"
