"""A report on disk."""

from __future__ import annotations

import csv
import io
import os
import textwrap
from pathlib import Path
from typing import NamedTuple

from deepwishart._support.files import write_atomically
from deepwishart.reproduction.report.content import Section, make_content
from deepwishart.reproduction.report.html import to_html
from deepwishart.reproduction.report.latex import to_latex
from deepwishart.reproduction.report.markdown import escape, to_cell, to_markdown
from deepwishart.reproduction.report.reading import read_results


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
            write_atomically(folder / "tables" / f"{section.name}.rst", _for_docs(section))
        for figure in section.figures:
            write_atomically(folder / "figures" / f"{figure.name}.svg", figure.svg)
    texts = {
        "report.md": to_markdown(content),
        "report.tex": to_latex(content),
        "report.html": to_html(content),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return Written(tuple(folder / name for name in texts), content.summary, content.notes)


def _for_docs(section: Section) -> str:
    """A section in reStructuredText, to be included by pages."""
    parts = [escape(text) for text in section.texts if text]
    if section.table is not None:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(map(escape, section.table.headings))
        writer.writerows(map(to_cell, row) for row in section.table.rows)
        heading = f".. csv-table:: {escape(section.title)}\n   :header-rows: 1"
        parts.append(f"{heading}\n\n{textwrap.indent(buffer.getvalue().rstrip(), '   ')}")
    return "\n\n".join(parts) + "\n"
