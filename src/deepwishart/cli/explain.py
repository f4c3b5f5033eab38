"""``deepwishart explain``: which columns a model uses, and how its predictions depend on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepwishart.cli.lists import is_word, taking_lists
from deepwishart.cli.table_options import KINDS, AsJson, Decimal, Encoding, ModelPath, Separator

__all__ = ["explain", "explain_command"]

explain_command = taking_lists({"--columns": is_word})


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
    repeats: Annotated[
        int, typer.Option(min=1, help="How often values are dealt out to the rows.")
    ] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of that.")] = 0,
    as_json: AsJson = False,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
) -> None:
    """Show which columns matter to a model, and how its prediction depends on each.

    Lengthscales of the first layer say what the model looks at, in standard deviations of the
    column: short ones matter. With targets in the table there is also what the log score loses
    when a column's values are dealt out to the rows at random. A dependence is the average
    prediction with one column set to a value, with a 90% band.
    """
    from deepwishart.cli.explaining import run_explain

    table = (data, separator, decimal, encoding)
    run_explain(
        model, table, out, columns or [], rows=rows, repeats=repeats, seed=seed, as_json=as_json
    )
