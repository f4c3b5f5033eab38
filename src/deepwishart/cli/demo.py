"""``deepwishart demo``: the whole job on a small data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    out: Annotated[
        Path, typer.Option(help="Directory for the page, index.html; made if it does not exist.")
    ] = Path("deepwishart-demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A few steps only, to see that everything works.")
    ] = False,
) -> None:
    """Fit a deep Wishart process and the equivalent deep GP to the diabetes data, and compare them.

    Needs no network. Prints scores on held-out rows and writes one HTML page with pictures of
    training, predictions, calibration and learned Gram matrices.
    """
    from deepwishart.cli.demonstration import run_demo

    run_demo(out, quick=quick)
