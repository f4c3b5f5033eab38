"""``deepwishart explain``: which columns a model uses, and how its predictions depend on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepwishart.cli.options import (
    KINDS,
    Decimal,
    Encoding,
    ModelPath,
    Separator,
    taking_lists,
)

explain_command = taking_lists("--columns")


def explain(
    model: ModelPath,
    data: Annotated[
        Path,
        typer.Argument(
            help=f"Table of rows that the model was not trained on: {KINDS}", metavar="TABLE"
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for relevance.csv, dependence.csv and their pictures."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="Columns to vary; by default the twelve that matter most."),
    ] = None,
    rows: Annotated[int, typer.Option(min=2, help="Rows to use at most.")] = 500,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
) -> None:
    """Show which columns matter to a model, and how its prediction depends on each.

    Lengthscales of the first layer say what the model looks at, in standard deviations of the
    column: short ones matter. With targets in the table there is also what the log score loses
    when a column's values are dealt out to the rows at random. A dependence, which --out asks for,
    is the average prediction with one column set to a value, with a 90% band.
    """
    from deepwishart.cli.explaining import run_explain

    run_explain(model, (data, separator, decimal, encoding), out, columns or [], rows)
