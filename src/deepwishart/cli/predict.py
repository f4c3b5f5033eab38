"""``deepwishart predict``: from a model and a table to predictions."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from deepwishart.cli.errors import CommandError, plain_warnings
from deepwishart.cli.lists import is_number, taking_lists

if TYPE_CHECKING:
    import polars as pl

    from deepwishart.cli.directory import SavedModel

__all__ = ["predict"]

predict_command = taking_lists({"--quantiles": is_number})


def predict(
    model: Annotated[Path, typer.Argument(help="Directory that deepwishart fit wrote.")],
    data: Annotated[
        Path, typer.Argument(help="Table to predict for: .csv, .tsv or .parquet.", metavar="TABLE")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write: .csv or .parquet; standard output if not given."),
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
    levels = quantiles or [0.05, 0.5, 0.95]
    for level in levels:
        if not 0 < level < 1:
            raise CommandError(f"--quantiles must lie strictly between 0 and 1, got {level:g}.")
    if len(set(levels)) < len(levels):
        raise CommandError("--quantiles names a probability twice.")
    if out is not None:
        _check_output(out, data)
    from deepwishart.cli.directory import ModelDirectory

    saved = ModelDirectory(model).load()
    with plain_warnings(), _output(out) as file:
        for number, frame in enumerate(_predict_table(saved, data, levels)):
            frame.write_csv(file, include_header=number == 0)


def _predict_table(
    saved: SavedModel, data: Path, quantiles: Sequence[float]
) -> Iterator[pl.DataFrame]:
    import numpy as np
    import polars as pl

    from deepwishart.tables import TableError, stream_table

    row = 1
    for batch in stream_table(data):
        try:
            inputs = saved.encoder.encode(batch, first_row=row)
        except TableError as error:
            raise TableError(f"{data}: {error}") from error
        distribution = saved.regressor.predict_distribution(inputs)
        parts = [*distribution.mean_and_stddev(), *distribution.quantile(list(quantiles))]
        names = ["mean", "std", *(f"q{level!r}" for level in quantiles)]
        found = {}
        for index, target in enumerate(saved.targets):
            prefix = f"{target}_" if len(saved.targets) > 1 else ""
            for name, values in zip(names, parts, strict=True):
                found[f"{prefix}{name}"] = values.reshape(len(batch), -1)[:, index]
        finite = np.isfinite(np.array(list(found.values()))).all(0)
        if not finite.all():
            raise CommandError(
                f"{data}: the prediction for row {row + int(finite.argmin())} is not a finite "
                "number. Check the units of that row; if every row is like this, train again."
            )
        yield pl.DataFrame(found)
        row += len(batch)


def _check_output(out: Path, data: Path) -> None:
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise CommandError(f"--out must be a .csv or .parquet file, got {out}.")
    if out.is_dir():
        raise CommandError(f"--out {out} is a directory; name a file.")
    if not out.absolute().parent.is_dir():
        raise CommandError(f"The directory of --out {out} does not exist.")
    if out.exists() and data.exists() and out.samefile(data):
        raise CommandError(f"--out {out} is the table itself; choose another file.")


@contextlib.contextmanager
def _output(out: Path | None) -> Iterator[BinaryIO]:
    """A file for CSV that becomes ``out`` when all is well, and vanishes otherwise."""
    import polars as pl

    if out is None:
        yield sys.stdout.buffer
        return
    partial = out.with_name(f".{out.name}.{secrets.token_hex(4)}.partial")
    table = partial.with_suffix(".parquet")
    try:
        with open(partial, "wb") as file:
            yield file
        if out.suffix.lower() == ".parquet":
            text = pl.scan_csv(partial, infer_schema=False, glob=False)
            text.cast(pl.Float64).sink_parquet(table)
            os.replace(table, out)
        else:
            os.replace(partial, out)
    finally:
        partial.unlink(missing_ok=True)
        table.unlink(missing_ok=True)
