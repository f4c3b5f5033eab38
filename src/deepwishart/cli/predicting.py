"""The work of ``deepwishart predict``."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl

from deepwishart.cli.directory import ModelDirectory, SavedModel
from deepwishart.cli.errors import CommandError, plain_warnings
from deepwishart.tables import TableError, stream_table

__all__ = ["predict_table", "run_predict"]


def run_predict(model: Path, data: Path, out: Path | None, quantiles: Sequence[float]) -> None:
    """Predict a table into a file, which appears only when it is complete."""
    for level in quantiles:
        if not 0 < level < 1:
            raise CommandError(f"--quantiles must lie strictly between 0 and 1, got {level:g}.")
    if len(set(quantiles)) < len(quantiles):
        raise CommandError("--quantiles names a probability twice.")
    if out is not None:
        _check_output(out, data)
    saved = ModelDirectory(model).load()
    with plain_warnings(), _output(out) as file:
        for number, frame in enumerate(predict_table(saved, data, quantiles)):
            frame.write_csv(file, include_header=number == 0)


def predict_table(
    saved: SavedModel, data: Path, quantiles: Sequence[float]
) -> Iterator[pl.DataFrame]:
    """Predictions for a table, batch by batch."""
    row = 1
    for batch in stream_table(data):
        try:
            inputs = saved.encoder.encode(batch, first_row=row)
        except TableError as error:
            raise TableError(f"{data}: {error}") from error
        found = _predict_batch(saved, inputs, quantiles)
        finite = np.isfinite(found.to_numpy()).all(1)
        if not finite.all():
            raise CommandError(
                f"{data}: the prediction for row {row + int(finite.argmin())} is not a finite "
                "number. Check the units of that row; if every row is like this, train again."
            )
        yield found
        row += len(batch)


def _predict_batch(
    saved: SavedModel, inputs: pl.DataFrame, quantiles: Sequence[float]
) -> pl.DataFrame:
    distribution = saved.regressor.predict_distribution(inputs)
    rows = len(inputs)
    mean, std = (part.reshape(rows, -1) for part in distribution.mean_and_stddev())
    points = distribution.quantile(list(quantiles)).reshape(len(quantiles), rows, -1)
    columns: dict[str, np.ndarray] = {}
    for index, target in enumerate(saved.targets):
        prefix = f"{target}_" if len(saved.targets) > 1 else ""
        columns[f"{prefix}mean"] = mean[:, index]
        columns[f"{prefix}std"] = std[:, index]
        for level, values in zip(quantiles, points, strict=True):
            columns[f"{prefix}q{level!r}"] = values[:, index]
    return pl.DataFrame(columns)


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
