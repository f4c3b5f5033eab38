"""``deepwishart predict``: from a model and a table to predictions."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deepwishart._support.files import PARTIAL
from deepwishart.cli.errors import CommandError, note, note_formulas, plain_warnings
from deepwishart.cli.options import (
    KINDS,
    Decimal,
    Encoding,
    ModelPath,
    Separator,
    opened,
    taking_lists,
)

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

    from deepwishart.estimators.table_model import TableModel
    from deepwishart.tables import TableFile

_FOLLOWING = 100  # batches to look at besides the one that has a problem

predict_command = taking_lists("--keep", numbers=("--quantiles",))


def predict(
    model: ModelPath,
    data: Annotated[Path, typer.Argument(help=f"Table to predict for: {KINDS}", metavar="TABLE")],
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
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="id name", help="Columns of the table to copy in front of the predictions."
        ),
    ] = None,
    unseen: Annotated[
        Literal["error", "prior", "other"],
        typer.Option(
            help="Rows with a category that the training table did not have: refuse them (error), "
            "answer as if nothing had been learned (prior), or take it for the category 'other', "
            "or for none of the known ones (other).",
        ),
    ] = "error",
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
) -> None:
    """Predict every row of a table: mean, standard deviation and quantiles, in units of the target,
    or of a classifier the most probable class and the probability of each.

    Columns are found by name, in any order; others are ignored. Rows are read and written in
    batches, so that a table may be larger than memory. With several targets, names of columns
    start with the target's.
    """

    levels = quantiles or [0.05, 0.5, 0.95]
    if not all(0 < level < 1 for level in levels) or len(set(levels)) < len(levels):
        shown = ", ".join(f"{level:g}" for level in levels)
        raise CommandError(
            f"--quantiles must be different numbers strictly between 0 and 1, got {shown}."
        )
    if out is not None:
        _check_output(out, data)
    from deepwishart.cli.directory import ModelDirectory

    saved = ModelDirectory(model).load()
    if quantiles and hasattr(saved.regressor, "classes_"):
        raise CommandError("--quantiles is for numbers; this model predicts classes.")
    reading = opened(data, separator, decimal, encoding)
    said = False
    with plain_warnings(), reading as table, _output(out) as write:
        for frame in _predict_table(saved, table, levels, keep or [], unseen):
            write(frame)
            said = said or note_formulas(frame)


def _predict_table(
    saved: TableModel, table: TableFile, quantiles: Sequence[float], keep: list[str], unseen: str
) -> Iterator[pl.DataFrame]:
    import numpy as np
    import polars as pl

    from deepwishart.tables import TableError
    from deepwishart.tables.columns import require_columns

    classes = getattr(saved.regressor, "classes_", None)
    names = ["mean", "std", *(f"q{level!r}" for level in quantiles)]
    if classes is not None:
        names = [f"p_{label}" for label in classes.tolist()]
    several = len(saved.targets) > 1
    outputs = [f"{each}_{name}" if several else name for each in saved.targets for name in names]
    written = outputs if classes is None else ["class", *outputs]
    for name in keep:
        if name in written or keep.count(name) > 1:
            raise CommandError(f"--keep {name}: there would be two columns of that name.")

    def encode(batch: pl.DataFrame) -> pl.DataFrame:
        require_columns(batch, keep)
        numbers = range(row, row + len(batch))
        return saved.encoder.encode(batch, numbers, "error" if unseen == "error" else "other")

    row, answered = 1, 0
    batches = table.stream()
    for batch in batches:
        try:
            inputs = encode(batch)
        except TableError:  # batches that follow may have the same; all is said at once
            try:
                encode(pl.concat([batch, *itertools.islice(batches, _FOLLOWING)]))
            except TableError as error:
                raise TableError(*(f"{table.name}: {each}" for each in error.problems)) from None
        parts = _answers(saved.regressor.predict_distribution(saved.inputs(inputs)), quantiles)
        if unseen == "prior" and (strange := saved.encoder.unseen(batch)).any():
            answered += int(strange.sum())
            others = saved.inputs(inputs.filter(strange))
            prior = saved.regressor.predict_distribution(others, prior=True)
            parts[:, strange] = _answers(prior, quantiles)
        finite = np.isfinite(parts).all((0, 2))
        if not finite.all():
            raise CommandError(
                f"{table.name}: the prediction for row {row + int(finite.argmin())} is not a "
                "finite number. Check the units of that row; if every row is like this, train "
                "again."
            )
        columns = [batch[name] for name in keep]
        if classes is not None:
            columns.append(pl.Series("class", classes[parts[:, :, 0].argmax(0)]))
        # Targets one after the other, each with all its numbers.
        numbers = parts.transpose(2, 0, 1).reshape(-1, len(batch))
        yield pl.DataFrame(
            columns + [pl.Series(*each) for each in zip(outputs, numbers, strict=True)]
        )
        row += len(batch)
    if answered:
        who = "1 row has a category" if answered == 1 else f"{answered:,} rows have categories"
        note(f"{who} that the training table did not have, and the prior's answer")


def _answers(distribution: Any, quantiles: Sequence[float]) -> np.ndarray:
    """Mean, standard deviation and quantiles, ``(2 + K, N, D)``, or probabilities of C classes,
    ``(C, N, 1)``."""
    import numpy as np

    if hasattr(distribution, "classes"):
        return distribution.probs.T[:, :, None].copy()
    parts = [*distribution.mean_and_stddev(), *distribution.quantile(list(quantiles))]
    return np.stack([part.reshape(len(part), -1) for part in parts])


def _check_output(out: Path, data: Path) -> None:
    if out.suffix.lower() not in (".csv", ".parquet"):
        raise CommandError(f"--out must be a .csv or .parquet file, got {out}.")
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise CommandError(f"--out {out}: there is no such directory to write a file to.")
    if out.exists() and data.exists() and out.samefile(data):
        raise CommandError(f"--out {out} is the table itself; choose another file.")


@contextlib.contextmanager
def _output(out: Path | None) -> Iterator[Callable[[pl.DataFrame], None]]:
    """A function that writes a batch; ``out`` appears when all is well, and otherwise not."""
    import polars as pl

    count = itertools.count()
    if out is None:

        def show(frame: pl.DataFrame) -> None:
            text = frame.write_csv(include_header=not next(count))
            sys.stdout.buffer.write(text.encode())
            sys.stdout.flush()  # polars' own errors do not say that whoever reads has gone

        yield show
        return
    beside = tempfile.TemporaryDirectory(prefix=".", suffix=PARTIAL, dir=out.absolute().parent)
    with beside as folder:
        whole = Path(folder, "whole")
        if out.suffix.lower() == ".csv":
            with open(whole, "wb") as file:
                yield lambda frame: frame.write_csv(file, include_header=not next(count))
        else:
            yield lambda frame: frame.write_parquet(Path(folder, f"{next(count):09}.parquet"))
            parts = sorted(Path(folder).glob("*.parquet"))
            pl.scan_parquet(parts, glob=False).sink_parquet(whole)
        os.replace(whole, out)
