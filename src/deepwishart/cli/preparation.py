"""From a file to rows that a model can be trained on, and rows held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from deepwishart.cli.errors import printable
from deepwishart.cli.table_options import opened
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
from deepwishart.tables.problems import quoted

__all__ = ["Prepared", "Rows", "Split", "prepare"]

Rows = tuple[pl.DataFrame, np.ndarray]


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows held out, encoded the same way."""

    encoder: TableEncoder
    train: Rows
    test: Rows


@dataclass(frozen=True)
class Prepared:
    """A table that has been checked.

    Args:
        table: its rows with a target.
        numbers: which rows of the file those are.
        y: their targets ``(N, D)``.
        settings: the options about the table.
        digest: of the file's content.
        left_out: number of rows without a target.
        classes: labels of the classes that ``y`` numbers, if it does.
        remarks: sentences about those, and about words that were taken for missing values.
    """

    table: pl.DataFrame
    numbers: Sequence[int]
    y: np.ndarray
    settings: Mapping[str, Any]
    digest: str
    left_out: int
    classes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def hold_out(self) -> Split:
        """The division that the options ask for."""
        train, test = _divide(len(self.y), self.settings["holdout"], self.settings["random_state"])
        return self.split(train, test)

    def folds(self, count: int) -> Iterator[Split]:
        """Every row held out once, in ``count`` parts."""
        if not 2 <= count <= len(self.y) // 2:
            raise TableError(
                f"--cv {count}: {len(self.y)} rows can be divided into 2 to {len(self.y) // 2} "
                "parts."
            )
        order = np.random.default_rng(self.settings["random_state"]).permutation(len(self.y))
        for part in np.array_split(order, count):
            rest = np.setdiff1d(order, part)
            yield self.split(rest, np.sort(part))

    @property
    def _targets(self) -> list[str]:
        return self.settings["target"]

    def split(self, train: np.ndarray, test: np.ndarray) -> Split:
        """Encode rows; what fills gaps comes from the rows to train on."""
        settings = self.settings
        if self.classes:
            train, test = _every_class(train, test, self.y[:, 0])
        encoder = TableEncoder.fit(
            self.table,
            ignore=[*settings["target"], *settings["drop"]],
            categorical=[name for name in settings["categorical"] if name not in self._targets],
            impute=settings["impute"],
            fill_from=train.tolist(),
            missing=settings["missing"] or MISSING,
            rows=self.numbers,
        )
        X, y = encoder.encode(self.table, self.numbers), self.y
        values = X.to_numpy()
        if not (values != values[0]).any():
            raise TableError("Every input column is constant; there is nothing to predict from.")
        for scaled, names, what in ((values, X.columns, "X"), (y, settings["target"], "y")):
            check_distance(Standardiser.fit(scaled[train]).forward(scaled), names, what)
        if self.classes:
            y = np.array(self.classes)[y.astype(int)]
        return Split(encoder, (X[train], y[train]), (X[test], y[test]))


def prepare(data: Path, settings: Mapping[str, Any], *, quiet: bool = False) -> Prepared:
    """Read a table and leave out rows without a target; all that is wrong comes in one message."""
    reading = [settings[name] for name in ("separator", "decimal", "encoding")]
    with opened(data, *reading, quiet=quiet) as file:
        table, digest = file.read(), file.digest()
    targets, missing = settings["target"], settings["missing"] or MISSING
    problems, y = Problems(), np.zeros((len(table), 0))
    classes: tuple[str, ...] = ()
    with problems:
        require_columns(
            table, dict.fromkeys([*targets, *settings["drop"], *settings["categorical"]])
        )
    with problems:
        if not problems and _is_classification(table, settings, missing):
            y, classes = read_labels(table, targets[0], missing)
        elif not problems:
            y = read_targets(table, targets, missing)
    known: np.ndarray = np.logical_not(np.isnan(y).any(1))
    if not known.any():
        problems.append("No row has a value for every target.")
        known[:] = True  # the inputs can be looked at nevertheless
    numbers = (1 + np.flatnonzero(known)).tolist()
    left_out = int((~known).sum())
    remarks = tuple(_remarks(table, left_out, missing))
    prepared = Prepared(
        table.filter(known), numbers, y[known], settings, digest, left_out, classes, remarks
    )
    if problems:
        with problems:
            _try_encoder(prepared)
        problems.settle()
    return prepared


def _is_classification(
    table: pl.DataFrame, settings: Mapping[str, Any], missing: Sequence[str]
) -> bool:
    """Whether the target is one of classes: text, truth values, or named by --categorical."""
    named = [name for name in settings["target"] if name in settings["categorical"]]
    found = [name for name in settings["target"] if holds_classes(table, name, missing)]
    if len(settings["target"]) == 1:
        return bool(named or found)
    if named or found:
        raise TableError(
            f"The target {quoted((named or found)[0])} names classes: it has to be the only one. "
            "Fit a model for each target."
        )
    return False


def _every_class(
    train: np.ndarray, test: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same rows, except that those of classes with none to train on are not held out."""
    needed = ~np.isin(y[test], y[train])
    return np.sort(np.concatenate([train, test[needed]])), test[~needed]


def _try_encoder(prepared: Prepared) -> None:
    """Have the encoder say what it cannot use, also where other columns are missing."""
    present, settings = prepared.table.columns, prepared.settings
    ignore = [name for name in (*settings["target"], *settings["drop"]) if name in present]
    TableEncoder.fit(
        prepared.table,
        ignore=ignore,
        categorical=[
            name
            for name in settings["categorical"]
            if name in present and name not in settings["target"]
        ],
        impute=settings["impute"],
        missing=settings["missing"] or MISSING,
        rows=prepared.numbers,
    )


def _remarks(table: pl.DataFrame, left_out: int, missing: Sequence[str]) -> Iterator[str]:
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


def _divide(num_rows: int, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, in their order, and rows held out: at least one if a fraction is given."""
    count = max(1, round(holdout * num_rows)) if holdout else 0
    if num_rows - count < 2:
        raise TableError(
            f"The table has {num_rows} rows; at least two have to be left to train on besides the "
            f"{count} held out."
        )
    order = np.random.default_rng(seed).permutation(num_rows)
    return np.sort(order[count:]), np.sort(order[:count])
