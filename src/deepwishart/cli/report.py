"""``deepwishart uci report``: tables and figures of a sweep, beside the paper's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepwishart.cli.errors import note

__all__ = ["report"]


def report(
    results: Annotated[
        Path, typer.Argument(help="Directory that deepwishart uci run wrote to.")
    ] = Path("results"),
    out: Annotated[Path, typer.Option(help="Directory of the report.")] = Path("report"),
    protocol: Annotated[
        str | None,
        typer.Option(
            help="The only training protocol to report on; by default paper and converged."
        ),
    ] = None,
) -> None:
    """Write the paper's tables and figures from finished runs, as Markdown, LaTeX and HTML.

    Published numbers stand beside ours, which are means over runs with the same settings. What
    could not be used (torn lines, failed runs) is said in the report and on standard error.
    """
    from deepwishart.reproduction.report import write_report

    written = write_report(results, out, protocol=protocol)
    for sentence in written.notes:
        note(sentence)
    print(written.summary)
    for path in written.files:
        print(path)
