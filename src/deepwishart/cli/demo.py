"""``deepwishart demo``: the whole job on a small data set, beside models that everyone knows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

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
    training, predictions, calibration and learned Gram matrices. With --classification, it writes a
    table of tumours and shows what deepwishart fit does with it.
    """
    out.mkdir(parents=True, exist_ok=True)  # better to fail before training than after it
    if classification:
        _fit_tumours(out, quick)
        return
    from deepwishart.cli.demos import run_demo

    run_demo(out, quick=quick)


def _fit_tumours(out: Path, quick: bool) -> None:
    import polars as pl
    from sklearn.datasets import load_breast_cancer

    from deepwishart.cli import app

    data: Any = load_breast_cancer()
    table = pl.DataFrame(data.data, schema=[str(name) for name in data.feature_names])
    diagnosis = pl.Series("diagnosis", data.target_names[data.target].tolist())
    table.with_columns(diagnosis).write_csv(out / "tumours.csv")
    command = ["fit", str(out / "tumours.csv"), "--target", "diagnosis", "--holdout", "0.3"]
    command += ["--out", str(out / "model"), "--report", str(out / "index.html"), "--force"]
    command += ["--num-inducing", "20", "--max-iter", "20"] if quick else []
    print(f"deepwishart {shlex.join(command)}")
    app(command, standalone_mode=False)
