"""A report on disk: Markdown, LaTeX and one HTML page that asks nothing of any network."""

from __future__ import annotations

import csv
import io
import os
import re
from pathlib import Path
from typing import NamedTuple

import jinja2

from deepwishart._support.files import write_atomically
from deepwishart._support.pages import recolour, style
from deepwishart.reproduction.report.content import MARKS, Content, make_content
from deepwishart.reproduction.report.reading import read_results
from deepwishart.reproduction.report.tables import Cell, Section

_MEANINGS = {
    "match": "within the reach of chance",
    "better": "better, beyond the reach of chance",
    "worse": "worse, beyond the reach of chance",
    "agrees": "the sign that the paper calls significant",
    "contradicts": "not the sign that the paper calls significant",
}
_TEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"≈": r"$\approx$", "▲": r"$\blacktriangle$", "▼": r"$\blacktriangledown$"},
    **{"✓": r"$\checkmark$", "✗": r"$\times$", "±": r"$\pm$", "—": "---", "'": "'{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": "$<$", ">": "$>$", "|": "$|$"},
}


class Written(NamedTuple):
    """The files that were written, a line about the report, and sentences about what was left out
    of it."""

    files: tuple[Path, ...]
    summary: str
    notes: tuple[str, ...]


def write_report(
    results: str | os.PathLike[str], out: str | os.PathLike[str], *, protocol: str | None = None
) -> Written:
    """Write ``report.md`` (with pictures in ``figures/``), ``report.tex`` and ``report.html``, and
    each table in a file of its own in ``tables/``, for pages of documentation to include.

    Args:
        results: directory that ``deepwishart uci run`` wrote to.
        out: directory of the report; made if it is not there.
        protocol: the only runs to report on, see :func:`read_results`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     written = write_report(directory, Path(directory) / "report")
    >>> [path.name for path in written.files]
    ['report.md', 'report.tex', 'report.html']
    """
    content = make_content(read_results(results, protocol=protocol))
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{out} is a file; name a directory for the report.")
    for name in ("figures", "tables"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for section in content.sections:
        if not section.figures:
            text = _templates().get_template("section.rst").render(section=section)
            write_atomically(folder / "tables" / f"{section.name}.rst", text)
        for figure in section.figures:
            write_atomically(folder / "figures" / f"{figure.name}.svg", figure.svg)
    names = ("report.md", "report.tex", "report.html")
    files = tuple(write_atomically(folder / name, render(name, content)) for name in names)
    return Written(files, content.summary, content.notes)


def render(template: str, content: Content) -> str:
    """The report as ``"report.md"``, ``"report.tex"`` or ``"report.html"``."""
    return _templates().get_template(template).render(content=content)


def _templates() -> jinja2.Environment:
    # Delimiters that neither LaTeX nor a page's script has.
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
    )
    environment.filters |= {
        **{"md": _markdown, "tex": _latex, "cell_md": _markdown_cell, "cell_tex": _latex_cell},
        **{"csv": _csv, "inline": _inline},
    }
    environment.globals |= {"marks": MARKS, "meanings": _MEANINGS, "style": style}
    return environment


def _markdown(text: str) -> str:
    """Text without what Markdown or reStructuredText would take for something else."""
    return re.sub(r"([\\`*_|<\[\]#])", r"\\\1", " ".join(text.split()))


def _latex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in " ".join(text.split()))


def _markdown_cell(cell: Cell) -> str:
    text = _markdown(cell.number())
    return _join(f"**{text}**" if cell.bold else text, cell, MARKS[cell.mark])


def _latex_cell(cell: Cell) -> str:
    if cell.value is None or cell.text:
        return _join(_latex(cell.text), cell, _latex(MARKS[cell.mark]))
    number = cell.number(r"\pm")
    text = f"$\\mathbf{{{number}}}$" if cell.bold else f"${number}$"
    return _join(text, cell, _latex(MARKS[cell.mark]))


def _join(number: str, cell: Cell, mark: str) -> str:
    count = "" if cell.count is None else f"({cell.count})"
    return " ".join(part for part in (number, count, mark) if part)


def _csv(table: Section) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_markdown, table.headings))
    writer.writerows(map(_markdown_cell, row) for row in table.rows)
    return buffer.getvalue().rstrip()


def _inline(svg: str) -> str:
    """A picture in the page's colours, and without name spaces, which HTML does not need."""
    return recolour(re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg))
