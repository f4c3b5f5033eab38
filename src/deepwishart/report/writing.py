"""A report on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from deepwishart.report.content import make_content
from deepwishart.report.figures import Figure
from deepwishart.report.html import to_html
from deepwishart.report.latex import to_latex
from deepwishart.report.markdown import to_markdown
from deepwishart.report.reading import read_results

__all__ = ["Written", "write_report"]


class Written(NamedTuple):
    """What was written.

    Args:
        files: the report as Markdown, LaTeX and HTML.
        summary: of the report, in one line.
        notes: sentences about what was left out.
    """

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
            _replace(folder / "figures" / f"{figure.name}.svg", _stand_alone(figure.svg))
    texts = {
        "report.md": to_markdown(content),
        "report.tex": to_latex(content),
        "report.html": to_html(content),
    }
    for name, text in texts.items():
        _replace(folder / name, text)
    return Written(tuple(folder / name for name in texts), content.summary, content.notes)


def _stand_alone(svg: str) -> str:
    """An SVG element as a file, with the name space that it does not need within HTML."""
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def _replace(path: Path, text: str) -> None:
    """Write a file, all or nothing."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
