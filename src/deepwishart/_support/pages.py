"""HTML pages that need no other file and ask nothing of any network, in light and dark."""

from __future__ import annotations

import io
import re
import warnings
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

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


def style() -> str:
    """What all pages look like."""
    return render("page.css")


def render(template: str, **values: Any) -> str:
    """A page from a file in ``templates``; text among the values is escaped, pictures are not.

    >>> "--ink" in render("page.css")
    True
    """
    pages = Environment(
        loader=PackageLoader("deepwishart._support"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template(template).render(values)


def recolour(svg: str) -> str:
    """A picture in the colours of the page that it stands on.

    >>> recolour('<path style="stroke: #0072b2; fill: #000000"/>')
    '<path style="stroke: var(--blue); fill: currentColor"/>'
    """
    return re.sub(r"#[0-9a-fA-F]{6}", lambda m: _COLOURS.get(m[0].lower(), m[0]), svg)


def picture(figure: Figure, alt: str) -> Markup:
    """A matplotlib figure as an SVG element, with words for those who cannot see."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    options: dict[str, Any] = {"metadata": {"Date": None, "Creator": None}, "transparent": True}
    with mpl.rc_context({"svg.hashsalt": alt, "svg.fonttype": "path"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # names may have characters that no font has
        figure.savefig(buffer, format="svg", dpi=120, **options)
    svg = buffer.getvalue().decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    return Markup(recolour(svg).replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1))
