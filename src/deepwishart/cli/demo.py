"""``deepwishart demo``: the whole job on a small data set, beside models that everyone knows."""

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
    classification: Annotated[
        bool, typer.Option("--classification", help="Tell benign from malignant tumours instead.")
    ] = False,
) -> None:
    """Fit a deep Wishart process to a Swiss roll, beside a linear model, a GP and a deep GP.

    Needs no network. Prints scores on held-out rows and writes one HTML page with pictures of
    training, predictions, calibration and learned Gram matrices.
    """
    out.mkdir(parents=True, exist_ok=True)  # better to fail before training than after it
    from deepwishart.cli.demos import run_class_demo, run_demo

    (run_class_demo if classification else run_demo)(out, quick=quick)
