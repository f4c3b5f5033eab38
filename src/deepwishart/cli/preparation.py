"""From a file to rows that a model can be trained on, and rows held out."""

from __future__ import annotations

import itertools
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
from deepwishart.tables.columns import MISSING, as_text, read_values, require_columns
from deepwishart.tables.encoder import find_kinds
from deepwishart.tables.problems import listing, quoted

# Settings about the table; the others are parameters of the estimators.
OF_THE_TABLE = (
    *("target", "categorical", "drop", "impute", "holdout", "split_by"),
    *("missing", "separator", "decimal", "encoding", "date_order"),
)
_MANY = 20  # rows that do not rise by chance
Rows = tuple[pl.DataFrame, np.ndarray]


class Prepared(NamedTuple):
    """A table that has been checked: rows to train on and rows held out, encoded the same way."""

    encoder: TableEncoder
    train: Rows
    test: Rows
    classes: tuple[str, ...]  # labels, if the target names classes
    digest: str  # of the file's content
    left_out: int  # number of rows without a target
    split: str  # how rows were chosen to be held out, if not at random
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
    hold every row out once or, if rows are in order, all after the first part."""
    reading = [settings[name] for name in ("separator", "decimal", "encoding")]
    with opened(data, *reading, quiet=quiet) as file:
        table, digest = file.read(), file.digest()
    targets, missing = settings["target"], settings["missing"] or MISSING
    problems, y = Problems(), np.zeros((len(table), 0))
    classes: tuple[str, ...] = ()
    named = dict.fromkeys([*targets, *settings["drop"], *settings["categorical"]])
    named |= {name: None for name in (settings["exposure"], settings["split_by"]) if name}
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
    by = settings["split_by"] if settings["split_by"] in table.columns else None
    order, forward = np.arange(len(y)), str(settings["holdout"]).startswith("last")
    split = "the last" if forward else ""
    with problems:
        if by and forward:
            raise TableError("--holdout last goes by rows, and --split-by by a column: give one.")
        if by:
            order, forward = _order(pl.DataFrame([table[by]]), settings, missing, rows)
            notes += [] if forward else [f"{printable(by, 60)} divides the rows, and is no input"]
            split = f"{'the last by' if forward else 'whole groups of'} {printable(by, 60)}"
    ignored = [*targets, *settings["drop"], *([by] if by and not forward else [])]

    def divide(training: np.ndarray, held_out: np.ndarray) -> Prepared:
        encoder = TableEncoder.fit(
            table,
            ignore=[each for each in ignored if each in table.columns],
            categorical=[
                each
                for each in settings["categorical"]
                if each in table.columns and each not in ignored
            ],
            impute=settings["impute"],
            fill_from=np.flatnonzero(training).tolist(),
            missing=missing,
            rows=rows,
            date_order=settings["date_order"],
        )
        problems.settle()
        X = encoder.encode(table, rows)
        values = X.to_numpy()
        if not (values != values[0]).any():
            raise TableError("Every input column is constant; there is nothing to predict from.")
        with numbering(rows):
            for scaled, names, what in ((values, X.columns, "X"), (y, targets, "y")):
                check_distance(Standardiser.fit(scaled[training]).forward(scaled), names, what)
            if not classes:
                model._check_targets(pl.DataFrame(y, schema=targets), reset=True)
                model._separate_exposures(model._check_inputs(X, reset=True), reset=True)
        remarks = [each for column in encoder.columns for each in column.remarks]
        if held_out.any() and not split:
            remarks += _in_time(encoder, X)
        notes.extend(each for each in remarks if each not in notes)
        told = np.array(classes)[y.astype(int)] if classes else y
        train, test = ((X.filter(each), told[each]) for each in (training, held_out))
        return Prepared(encoder, train, test, classes, digest, left_out, split, notes)

    none = np.zeros(len(y), dtype=bool)
    parts = _hold_out(y, settings, bool(classes), cv, order, forward)
    with problems:
        divided = [divide(*part) for part in ([(~none, none)] if problems else parts)]
    problems.settle()
    return divided


def _order(
    table: pl.DataFrame, settings: Mapping[str, Any], missing: Sequence[str], rows: Sequence[int]
) -> tuple[np.ndarray, bool]:
    """The place of each row among the values of the only column, and whether these are in order, as
    numbers and dates are, rather than groups."""
    text, problems = as_text(table, missing), Problems()
    gaps = text.to_series().is_null().arg_true()
    for row in gaps[:1]:
        problems.append(f"--split-by: {quoted(table.columns[0])} has no value in row {rows[row]}.")
    groups, dates = settings["categorical"], settings["date_order"]
    kinds, day_first = find_kinds(table, text, groups, rows, dates, problems)
    problems.settle()
    values, _ = read_values(table, kinds, rows, missing, day_first)
    places = np.unique(values.to_series().to_numpy(), return_inverse=True)[1]
    return places, kinds[table.columns[0]] in ("number", "date")


def _in_time(encoder: TableEncoder, X: pl.DataFrame) -> Iterator[str]:
    """A remark about inputs that are dates, or that rise or fall from row to row."""
    steps = np.diff(X.to_numpy(), axis=0) if len(X) >= _MANY else np.zeros((1, X.width))
    orderly = np.array(X.columns)[(steps > 0).all(0) | (steps < 0).all(0)]
    found = [each.name for each in encoder.columns if each.kind == "date" or each.name in orderly]
    if found:
        yield (
            f"rows seem to have an order in time ({listing(found)}): those held out at random say "
            f"little about later ones; --split-by {listing(found[:1])} holds out the last"
        )


def _hold_out(
    y: np.ndarray,
    settings: Mapping[str, Any],
    classes: bool,
    cv: int,
    order: np.ndarray,
    forward: bool,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Which rows to train on, and which to hold out: at least one if there is a fraction; then each
    of ``cv`` parts. Rows with the same place in ``order`` stay together; if it runs ``forward``,
    all training rows come before all held out."""
    fraction = float(str(settings["holdout"]).removeprefix("last:"))
    count = max(1, round(fraction * len(y))) if fraction else 0
    if len(y) - count < 2:
        raise TableError(
            f"The table has {len(y)} rows; at least two have to be left to train on besides the "
            f"{count} held out."
        )
    if cv and not 2 <= cv <= len(y) // 2:
        most = len(y) // 2
        raise TableError(f"--cv {cv}: {len(y)} rows can be divided into 2 to {most} parts.")
    end = order.max() + 1
    if forward:
        ranked = np.append(np.sort(order), end)
        cuts = [ranked[len(y) * part // (cv + 1)] for part in range(1, cv + 1)]
        spans = [(ranked[len(y) - count], end), *itertools.pairwise([*cuts, end])]
        divided = [(order < low, (low <= order) & (order < high)) for low, high in spans]
    else:
        drawn = np.random.default_rng(settings["random_state"]).permutation(end)
        reached = np.cumsum(np.bincount(order)[drawn])
        first = drawn[: np.searchsorted(reached, count) + 1 if count else 0]
        parts = [first, *(np.array_split(drawn, cv) if cv else ())]
        divided = [(~part, part) for part in (np.isin(order, each) for each in parts)]
    for number, (training, held_out) in enumerate(divided):
        if training.sum() < 2 or (number and not held_out.any()):
            what, by = f"--cv {cv}" if number else "--holdout", settings["split_by"]
            stay = f" Rows with the same {quoted(by)} stay together." if by else ""
            raise TableError(f"{what}: there are too few rows for one of the parts.{stay}")
        if classes:  # rows of classes with none to train on are not held out
            held_out &= np.isin(y[:, 0], y[training, 0])
        yield training if forward else ~held_out, held_out


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
