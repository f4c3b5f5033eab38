"""``deepwishart predict``: from a model and a table to predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepwishart.cli.lists import is_number, taking_lists

__all__ = ["predict"]

predict_command = taking_lists({"--quantiles": is_number})


def predict(
    model: Annotated[Path, typer.Argument(help="Directory that deepwishart fit wrote.")],
    data: Annotated[
        Path, typer.Argument(help="Table to predict for: .csv, .tsv or .parquet.", metavar="TABLE")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write: .csv or .parquet; standard output if not given.",
        ),
    ] = None,
    quantiles: Annotated[
        list[float] | None,
        typer.Option(
            metavar="0.05 0.5 0.95",
            help="Probabilities strictly between 0 and 1, as many as you like.",
        ),
    ] = None,
) -> None:
    """Predict every row of a table: mean, standard deviation and quantiles, in units of the target.

    Columns are found by name, in any order; others are ignored. Rows are read and written in
    batches, so that a table may be larger than memory. With several targets, names of columns
    start with the target's.
    """
    from deepwishart.cli.predicting import run_predict

    run_predict(model, data, out, quantiles or [0.05, 0.5, 0.95])
