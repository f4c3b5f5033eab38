"""``deepwishart demo``: what ``fit`` does, shown on a table that scikit-learn brings along."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[
        Path, typer.Option(help="Directory for the page, index.html; made if it does not exist.")
    ] = Path("deepwishart-demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A few steps only, to see that everything works.")
    ] = False,
) -> None:
    """Fit a deep Wishart process to a Swiss roll: from a table to a model and a page about it.

    Needs no network. Writes the table, prints the command that fits it, and runs it: scores on
    held-out rows beside a linear model and a plain GP, and pictures of predictions, calibration,
    relevance and training. Neighbours in space may be far apart along the roll, which is hard for
    a plain GP.
    """
    import polars as pl
    from sklearn.datasets import make_swiss_roll

    from deepwishart.cli import app

    out.mkdir(parents=True, exist_ok=True)
    points, angle = make_swiss_roll(600, noise=0.3, random_state=0)
    table = pl.DataFrame(points, schema=["x", "y", "z"]).with_columns(angle=pl.Series(angle))
    table.write_csv(out / "table.csv")
    command = ["fit", str(out / "table.csv"), "--target", "angle", "--out", str(out / "model")]
    command += ["--force", "--report", str(out / "index.html"), "--holdout", "0.3"]
    command += ["--depth", "3", "--posterior", "anchored"]
    inducing, steps = ("20", "20") if quick else ("50", "1000")
    command += ["--num-inducing", inducing, "--max-iter", steps]
    print(f"deepwishart {shlex.join(command)}")
    app(command, standalone_mode=False)
