"""From a file to rows that a model can be trained on, and rows held out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from deepwishart.cli.errors import printable
from deepwishart.cli.options import opened
from deepwishart.estimators import DeepKernelRegressor, Standardiser
from deepwishart.estimators.checks import check_distance
from deepwishart.tables import (
    Problems,
    TableEncoder,
    TableError,
    holds_classes,
    read_labels,
    read_targets,
)
from deepwishart.tables.columns import MISSING, require_columns
from deepwishart.tables.problems import listing, quoted

# Settings about the table; the others are parameters of the estimators.
OF_THE_TABLE = (
    *("target", "categorical", "drop", "impute", "holdout"),
    *("missing", "separator", "decimal", "encoding"),
)
Rows = tuple[pl.DataFrame, np.ndarray]


class Prepared(NamedTuple):
    """A table that has been checked: rows to train on and rows held out, encoded the same way."""

    encoder: TableEncoder
    train: Rows
    test: Rows
    classes: tuple[str, ...]  # labels, if the target names classes
    digest: str  # of the file's content
    left_out: int  # number of rows without a target
    notes: list[str]  # what a person should know of how the table was read


def targets_of(y: np.ndarray) -> np.ndarray:
    """As estimators take them: one is a column, several are a table."""
    return y[:, 0] if y.shape[1] == 1 else y


@contextmanager
def numbering(numbers: Sequence[int]) -> Iterator[None]:
    """Errors that count rows from 0 in what they were given call them by these ``numbers``."""
    try:
        yield
    except ValueError as error:
        found = re.compile(r"\brow (\d+)")
        error.args = (found.sub(lambda row: f"row {numbers[int(row[1])]}", str(error)),)
        raise


def prepare(
    data: Path,
    settings: Mapping[str, Any],
    model: DeepKernelRegressor,
    *,
    cv: int = 0,
    quiet: bool = False,
) -> list[Prepared]:
    """Read a table, leave out rows without a target and hold some out; all that is wrong comes in
    one message, and a ``model`` with the parameters that were asked for says what its targets have
    to be. The first has the rows held out that the settings ask for; then come ``cv`` others, which
    hold every row out once."""
    reading = [settings[name] for name in ("separator", "decimal", "encoding")]
    with opened(data, *reading, quiet=quiet) as file:
        table, digest = file.read(), file.digest()
    targets, missing = settings["target"], settings["missing"] or MISSING
    problems, y = Problems(), np.zeros((len(table), 0))
    classes: tuple[str, ...] = ()
    named = dict.fromkeys([*targets, *settings["drop"], *settings["categorical"]])
    named |= {settings["exposure"]: None} if settings["exposure"] else {}
    with problems:
        require_columns(table, named)
        if _names_classes(table, settings, missing):
            y, classes = read_labels(table, targets[0], missing)
        else:
            y = read_targets(table, targets, missing)
    known: np.ndarray = np.logical_not(np.isnan(y).any(1))
    if not known.any():
        problems.append("No row has a value for every target.")
        known[:] = True  # the inputs can be looked at nevertheless
    left_out = int((~known).sum())
    notes = []
    if classes:
        target, names = printable(targets[0], 60), listing(classes, 4)
        notes.append(f"{target} names {len(classes)} classes ({names}): this is a classifier")
    if left_out:
        several = "row" if left_out == 1 else "rows"
        notes.append(f"{left_out:,} {several} without a target left out")
    table, y, rows = table.filter(known), y[known], (1 + np.flatnonzero(known)).tolist()

    def divide(held_out: np.ndarray) -> Prepared:
        encoder = TableEncoder.fit(
            table,
            ignore=[each for each in (*targets, *settings["drop"]) if each in table.columns],
            categorical=[
                each
                for each in settings["categorical"]
                if each in table.columns and each not in targets
            ],
            impute=settings["impute"],
            fill_from=np.flatnonzero(~held_out).tolist(),
            missing=missing,
            rows=rows,
        )
        problems.settle()
        X = encoder.encode(table, rows)
        values = X.to_numpy()
        if not (values != values[0]).any():
            raise TableError("Every input column is constant; there is nothing to predict from.")
        with numbering(rows):
            for scaled, names, what in ((values, X.columns, "X"), (y, targets, "y")):
                check_distance(Standardiser.fit(scaled[~held_out]).forward(scaled), names, what)
            if not classes:
                model._check_targets(pl.DataFrame(y, schema=targets), reset=True)
                model._separate_exposures(model._check_inputs(X, reset=True), reset=True)
        told = np.array(classes)[y.astype(int)] if classes else y
        train, test = ((X.filter(each), told[each]) for each in (~held_out, held_out))
        return Prepared(encoder, train, test, classes, digest, left_out, notes)

    none = np.zeros(len(y), dtype=bool)
    parts = [none] if problems else _hold_out(y, settings, bool(classes), cv)
    with problems:
        divided = [divide(part) for part in parts]
    problems.settle()
    return divided


def _hold_out(
    y: np.ndarray, settings: Mapping[str, Any], classes: bool, cv: int
) -> Iterator[np.ndarray]:
    """Which rows to hold out: at least one if there is a fraction; then each of ``cv`` parts."""
    fraction = settings["holdout"]
    count = max(1, round(fraction * len(y))) if fraction else 0
    if len(y) - count < 2:
        raise TableError(
            f"The table has {len(y)} rows; at least two have to be left to train on besides the "
            f"{count} held out."
        )
    if cv and not 2 <= cv <= len(y) // 2:
        most = len(y) // 2
        raise TableError(f"--cv {cv}: {len(y)} rows can be divided into 2 to {most} parts.")
    order = np.random.default_rng(settings["random_state"]).permutation(len(y))
    for part in (order[:count], *(np.array_split(order, cv) if cv else ())):
        held_out = np.isin(np.arange(len(y)), part)
        if classes:  # rows of classes with none to train on are not held out
            held_out &= np.isin(y[:, 0], y[~held_out, 0])
        yield held_out


def _names_classes(
    table: pl.DataFrame, settings: Mapping[str, Any], missing: Sequence[str]
) -> bool:
    """Whether the target is one of classes: text, truth values, or named by --categorical."""
    found = [
        name
        for name in settings["target"]
        if name in settings["categorical"] or holds_classes(table, name, missing)
    ]
    if found and len(settings["target"]) > 1:
        raise TableError(
            f"The target {quoted(found[0])} names classes: it has to be the only one. Fit a model "
            "for each target."
        )
    return bool(found)
