"""``deepwishart info``: what a model is and how it was trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["info"]


def info(
    model: Annotated[Path, typer.Argument(help="Directory that deepwishart fit wrote.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for programs to read.")
    ] = False,
) -> None:
    """Show what a model is, how it was trained, and what its layers have learned."""
    from deepwishart.cli.describing import run_info

    run_info(model, as_json=as_json)
