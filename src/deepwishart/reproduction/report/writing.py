"""A report on disk: Markdown, and one HTML page that asks nothing of any network."""

from __future__ import annotations

import csv
import io
import os
import re
from pathlib import Path

import jinja2
from matplotlib import rc_context

from deepwishart._support.files import write_atomically
from deepwishart._support.pages import picture, style
from deepwishart.reproduction.report.content import MARKS, Content, make_content
from deepwishart.reproduction.report.reading import read_results
from deepwishart.reproduction.report.tables import Cell, Section


def write_report(
    results: str | os.PathLike[str], out: str | os.PathLike[str]
) -> tuple[Content, list[Path]]:
    """Write ``report.md``, with pictures in ``figures/``, and ``report.html``, and each table in a
    file of its own in ``tables/``, for pages of documentation to include.

    Args:
        results: directory that ``deepwishart uci run`` wrote to.
        out: directory of the report; made if it is not there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     content, files = write_report(directory, Path(directory) / "report")
    >>> [path.name for path in files]
    ['report.md', 'report.html']
    """
    content = make_content(read_results(results))
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
            with rc_context({"svg.hashsalt": figure.name, "svg.fonttype": "none"}):
                file = folder / "figures" / f"{figure.name}.svg"
                figure.picture.savefig(file, metadata={"Date": None})
    names = ("report.md", "report.html")
    return content, [write_atomically(folder / name, render(name, content)) for name in names]


def render(template: str, content: Content) -> str:
    """The report as ``"report.md"`` or ``"report.html"``."""
    return _templates().get_template(template).render(content=content)


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"md": _markdown, "cell": _cell, "csv": _csv}
    environment.globals |= {"marks": MARKS, "style": style, "picture": picture}
    return environment


def _markdown(text: str) -> str:
    """Text without what Markdown or reStructuredText would take for something else."""
    return re.sub(r"([\\`*_|<\[\]#])", r"\\\1", " ".join(text.split()))


def _cell(cell: Cell) -> str:
    number = _markdown(cell.number())
    number = f"**{number}**" if cell.bold else number
    count = "" if cell.count is None else f"({cell.count})"
    return " ".join(part for part in (number, count, MARKS[cell.mark]) if part)


def _csv(table: Section) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_markdown, table.headings))
    writer.writerows(map(_cell, row) for row in table.rows)
    return buffer.getvalue().rstrip()
