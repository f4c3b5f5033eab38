"""A page of text, tables and pictures in one HTML file that needs no other."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from deepwishart._support.files import write_atomically

__all__ = ["Page"]

_STYLE = """
  body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff;
         max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.15rem; margin-top: 2rem; }
  table { border-collapse: collapse; margin: 1rem 0; }
  th, td { padding: .35rem .8rem; border-bottom: 1px solid #ccc; text-align: right; }
  th:first-child, td:first-child { text-align: left; }
  figure { margin: 0; } figure img { max-width: 100%; height: auto; }
  figcaption { color: #555; max-width: 48rem; }
"""


class Page:
    """An HTML page, put together from top to bottom.

    Args:
        title: of the page.

    >>> page = Page("Results")
    >>> page.text("Smaller is better, if < 1.")
    >>> page.table(["model", "error"], [["dwp", "0.5"]])
    >>> "<td>dwp</td><td>0.5</td>" in page.html(), "if &lt; 1" in page.html()
    (True, True)
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self._parts.append(f"<p>{html.escape(text)}</p>")

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table of texts."""
        head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows
        )
        self._parts.append(f"<table>\n<tr>{head}</tr>\n{body}</table>")

    def figure(self, figure: Figure, title: str, caption: str) -> None:
        """Add a picture under a heading; it becomes part of the page."""
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
        image = base64.b64encode(buffer.getvalue()).decode()
        width = round(96 * figure.get_size_inches()[0])
        title = html.escape(title)
        self._parts.append(
            f"<h2>{title}</h2>\n<figure>\n"
            f'<img alt="{title}" width="{width}" src="data:image/png;base64,{image}">\n'
            f"<figcaption>{html.escape(caption)}</figcaption>\n</figure>"
        )

    def html(self) -> str:
        """The whole page."""
        title, body = html.escape(self._title), "\n".join(self._parts)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n"
            f"<body>\n<h1>{title}</h1>\n{body}\n</body>\n</html>\n"
        )

    def write(self, path: Path) -> Path:
        """Write the page to a file, all or nothing."""
        return write_atomically(path, self.html())
