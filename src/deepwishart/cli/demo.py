"""``deepwishart demo``: what ``fit`` does, shown on a table that scikit-learn brings along."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import polars as pl

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
    """Fit a deep Wishart process to a Swiss roll: from a table to a model and a page about it.

    Needs no network. Writes the table, prints the command that fits it, and runs it: scores on
    held-out rows beside a linear model and a plain GP, and pictures of predictions, calibration,
    relevance and training.
    """
    from deepwishart.cli import app

    out.mkdir(parents=True, exist_ok=True)
    path = out / "table.csv"
    target, table = (
        "diagnosis" if classification else "angle",
        _tumours if classification else _roll,
    )
    table().write_csv(path)
    command = ["fit", str(path), "--target", target, "--out", str(out / "model"), "--force"]
    command += ["--report", str(out / "index.html"), "--holdout", "0.3"]
    if not classification:
        command += ["--depth", "3", "--posterior", "anchored", "--num-inducing", "50"]
        command += ["--max-iter", "1000"]
    command += ["--num-inducing", "20", "--max-iter", "20"] if quick else []
    print(f"deepwishart {shlex.join(command)}")
    app(command, standalone_mode=False)


def _roll() -> pl.DataFrame:
    """Points of a sheet that has been rolled up, with noise: neighbours in space may be far apart
    along the roll, which is hard for a plain GP."""
    import polars as pl
    from sklearn.datasets import make_swiss_roll

    points, angle = make_swiss_roll(600, noise=0.3, random_state=0)
    return pl.DataFrame(points, schema=["x", "y", "z"]).with_columns(angle=pl.Series(angle))


def _tumours() -> pl.DataFrame:
    """Measurements of cell nuclei, and what the tumours turned out to be."""
    import polars as pl
    from sklearn.datasets import load_breast_cancer

    data: Any = load_breast_cancer()
    table = pl.DataFrame(data.data, schema=[str(name) for name in data.feature_names])
    diagnosis = data.target_names[data.target].tolist()
    return table.with_columns(diagnosis=pl.Series(diagnosis))
