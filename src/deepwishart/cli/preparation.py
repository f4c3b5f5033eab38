"""From a file to rows that a model can be trained on, and rows held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from deepwishart.cli.errors import printable
from deepwishart.cli.options import opened
from deepwishart.estimators import Standardiser
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

__all__ = ["OF_THE_TABLE", "Prepared", "Split", "prepare", "targets_of"]

# Settings about the table; the others are parameters of the estimators.
OF_THE_TABLE = (
    *("target", "categorical", "drop", "impute", "holdout"),
    *("missing", "separator", "decimal", "encoding"),
)
Rows = tuple[pl.DataFrame, np.ndarray]


class Split(NamedTuple):
    """Rows to train on and rows held out, encoded the same way."""

    encoder: TableEncoder
    train: Rows
    test: Rows


@dataclass(frozen=True)
class Prepared:
    """A table that has been checked."""

    table: pl.DataFrame  # its rows with a target
    numbers: Sequence[int]  # which rows of the file those are
    y: np.ndarray  # their targets (N, D)
    settings: Mapping[str, Any]  # the options about the table
    digest: str  # of the file's content
    left_out: int  # number of rows without a target
    classes: tuple[str, ...]  # labels of the classes that y numbers, if it does
    notes: tuple[str, ...]  # what a person should know of how the table was read

    def hold_out(self) -> Split:
        """The division that the options ask for: at least one row if there is a fraction. What
        fills gaps comes from the rows to train on."""
        num_rows, holdout = len(self.y), self.settings["holdout"]
        count = max(1, round(holdout * num_rows)) if holdout else 0
        if num_rows - count < 2:
            raise TableError(
                f"The table has {num_rows} rows; at least two have to be left to train on besides "
                f"the {count} held out."
            )
        order = np.random.default_rng(self.settings["random_state"]).permutation(num_rows)
        y, testing = self.y, np.isin(np.arange(num_rows), order[:count])
        if self.classes:  # rows of classes with none to train on are not held out
            testing &= np.isin(y[:, 0], y[~testing, 0])
        train, test = np.flatnonzero(~testing), np.flatnonzero(testing)
        encoder = self.encoder(train.tolist())
        X = encoder.encode(self.table, self.numbers)
        values = X.to_numpy()
        if not (values != values[0]).any():
            raise TableError("Every input column is constant; there is nothing to predict from.")
        for scaled, names, what in ((values, X.columns, "X"), (y, self.settings["target"], "y")):
            check_distance(Standardiser.fit(scaled[train]).forward(scaled), names, what)
        if self.classes:
            y = np.array(self.classes)[y.astype(int)]
        return Split(encoder, (X[train], y[train]), (X[test], y[test]))

    def encoder(self, fill_from: Sequence[int] | None = None) -> TableEncoder:
        """Fitted to the inputs, also where columns that the options name are missing."""
        named = {
            name: [each for each in self.settings[name] if each in self.table.columns]
            for name in ("target", "drop", "categorical")
        }
        return TableEncoder.fit(
            self.table,
            ignore=[*named["target"], *named["drop"]],
            categorical=[each for each in named["categorical"] if each not in named["target"]],
            impute=self.settings["impute"],
            fill_from=fill_from,
            missing=self.settings["missing"] or MISSING,
            rows=self.numbers,
        )


def targets_of(y: np.ndarray) -> np.ndarray:
    """As estimators take them: one is a column, several are a table."""
    return y[:, 0] if y.shape[1] == 1 else y


def prepare(data: Path, settings: Mapping[str, Any], *, quiet: bool = False) -> Prepared:
    """Read a table and leave out rows without a target; all that is wrong comes in one message."""
    reading = [settings[name] for name in ("separator", "decimal", "encoding")]
    with opened(data, *reading, quiet=quiet) as file:
        table, digest = file.read(), file.digest()
    targets, missing = settings["target"], settings["missing"] or MISSING
    problems, y, classes = Problems(), np.zeros((len(table), 0)), ()
    named = dict.fromkeys([*targets, *settings["drop"], *settings["categorical"]])
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
    numbers = (1 + np.flatnonzero(known)).tolist()
    left_out = int((~known).sum())
    notes = tuple(_notes(table, targets, classes, left_out, missing))
    prepared = Prepared(
        table.filter(known), numbers, y[known], settings, digest, left_out, classes, notes
    )
    if problems:
        with problems:
            prepared.encoder()
        problems.settle()
    return prepared


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


def _notes(
    table: pl.DataFrame,
    targets: Sequence[str],
    classes: Sequence[str],
    left_out: int,
    missing: Sequence[str],
) -> Iterator[str]:
    if classes:
        target, names = printable(targets[0], 60), listing(classes, 4)
        yield f"{target} names {len(classes)} classes ({names}): this is a classifier"
    if left_out:
        yield f"{left_out:,} {'row' if left_out == 1 else 'rows'} without a target left out"
    spellings = [word.strip().lower() for word in missing]
    counts: Counter[str] = Counter()
    for column in table.select(pl.col(pl.String)):
        words = column.rename("").str.strip_chars()  # polars takes "^x$" for a pattern of names
        counts.update(words.filter(words.str.to_lowercase().is_in(spellings)).to_list())
    if counts:
        shown = ", ".join(f"{printable(word, 20)} ({n:,})" for word, n in counts.most_common(8))
        yield f"taken for missing values: {shown} (--missing changes that)"
