"""A report on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from deepwishart._support.files import write_atomically
from deepwishart.reproduction.report.content import make_content
from deepwishart.reproduction.report.figures import Figure
from deepwishart.reproduction.report.html import to_html
from deepwishart.reproduction.report.latex import to_latex
from deepwishart.reproduction.report.markdown import to_markdown
from deepwishart.reproduction.report.reading import read_results

__all__ = ["Written", "write_report"]


class Written(NamedTuple):
    """The files that were written, a line about the report, and sentences about what was left out
    of it."""

    files: tuple[Path, ...]
    summary: str
    notes: tuple[str, ...]


def write_report(
    results: str | os.PathLike[str], out: str | os.PathLike[str], *, protocol: str | None = None
) -> Written:
    """Write ``report.md`` (with pictures in ``figures/``), ``report.tex`` and ``report.html``.

    Args:
        results: directory that ``deepwishart uci run`` wrote to.
        out: directory of the report; made if it is not there.
        protocol: which runs to report on, see :func:`read_results`.

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
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for figure in (content.training, *content.depths):
        if isinstance(figure, Figure):
            write_atomically(folder / "figures" / f"{figure.name}.svg", figure.svg)
    texts = {
        "report.md": to_markdown(content),
        "report.tex": to_latex(content),
        "report.html": to_html(content),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return Written(tuple(folder / name for name in texts), content.summary, content.notes)
