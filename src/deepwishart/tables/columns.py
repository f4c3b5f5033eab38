"""One column: numbers, true or false, or categories."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

__all__ = ["Column", "TableError", "as_numbers", "as_text", "as_truth", "suggest"]

# Spellings of a missing value, in lower case; an empty field is one too.
MISSING = ("", "na", "n/a", "nan", "null", "?")
_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}


class TableError(ValueError):
    """A table that cannot be used; the message names the column and says what to do."""


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes one or several columns of numbers.

    Args:
        name: of the column.
        kind: ``"number"``, ``"boolean"`` (0 and 1) or ``"category"`` (one column of 0 and 1 for
            every category).
        categories: the categories, in alphabetical order.
        fill: what a missing value becomes; ``None``: missing values are refused.

    >>> colour = Column("colour", "category", ("blue", "red"))
    >>> colour.feature_names
    ('colour=blue', 'colour=red')
    >>> colour.encode(pl.Series(["red", "blue"])).rows()
    [(0.0, 1.0), (1.0, 0.0)]
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    fill: float | str | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of numbers."""
        if self.kind != "category":
            return (self.name,)
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, values: pl.Series, first_row: int = 1) -> pl.DataFrame:
        """Columns of numbers, as ``feature_names`` says.

        Args:
            values: the column as read.
            first_row: number of its first row, for messages.
        """
        clean = _READERS[self.kind](values, self.name, first_row)
        if clean.null_count():
            if self.fill is None:
                raise TableError(
                    f"Column {self.name!r} has a missing value in row "
                    f"{first_row + clean.is_null().arg_true()[0]}. Fill it in or drop the row; a "
                    "model fitted with --impute median fills such values in by itself."
                )
            clean = clean.fill_null(self.fill)
        if self.kind != "category":
            return clean.alias(self.name).to_frame()
        self._check_known(clean, first_row)
        return pl.DataFrame(
            [
                (clean == category).cast(pl.Float64).alias(name)
                for name, category in zip(self.feature_names, self.categories, strict=True)
            ]
        )

    def _check_known(self, clean: pl.Series, first_row: int) -> None:
        unknown = (~clean.is_in(list(self.categories))).arg_true()
        if len(unknown):
            value = clean[unknown[0]]
            raise TableError(
                f"Column {self.name!r} has the category {value!r} in row {first_row + unknown[0]}, "
                f"which the training data did not have.{suggest(value, self.categories)} Known "
                f"categories: {_listing(self.categories)}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "categories": list(self.categories)}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Column:
        """What :meth:`to_dict` gave."""
        return cls(**{**plain, "categories": tuple(plain["categories"])})


def as_text(values: pl.Series, name: str, first_row: int = 1) -> pl.Series:
    """Trimmed text, null where a value is missing."""
    if not (values.dtype.is_numeric() or values.dtype in _PLAIN):
        kind = "dates or times" if values.dtype.is_temporal() else f"values of type {values.dtype}"
        raise TableError(
            f"Column {name!r} holds {kind}. Turn them into numbers first, for example into days "
            "since the first date, or leave the column out with --drop."
        )
    text = values.cast(pl.String).str.strip_chars()
    missing = text.str.to_lowercase().is_in(list(MISSING))
    return pl.select(pl.when(~missing).then(text)).to_series()


def as_numbers(values: pl.Series, name: str, first_row: int = 1) -> pl.Series:
    """Finite double-precision numbers, null where a value is missing; text is parsed.

    Raises:
        TableError: a value that is no number, or infinite, with its row.

    >>> as_numbers(pl.Series(["1", " 2.5 ", "NA"]), "x").to_list()
    [1.0, 2.5, None]
    """
    if values.dtype.is_numeric() or values.dtype == pl.Boolean:
        clean = values.cast(pl.Float64).fill_nan(None)
    else:
        text = as_text(values, name)
        clean = text.cast(pl.Float64, strict=False).fill_nan(None)
        _refuse(clean.is_null() & text.is_not_null(), text, name, first_row, "a number")
    _refuse(clean.is_infinite(), clean, name, first_row, "a finite number")
    return clean


def as_truth(values: pl.Series, name: str, first_row: int = 1) -> pl.Series:
    """1 for true, 0 for false, null where a value is missing.

    >>> as_truth(pl.Series(["True", "false", None, "1"]), "x").to_list()
    [1.0, 0.0, None, 1.0]
    """
    text = as_text(values, name).str.to_lowercase()
    clean = text.replace_strict(_TRUTH, default=None, return_dtype=pl.Float64)
    _refuse(clean.is_null() & text.is_not_null(), text, name, first_row, "true or false")
    return clean


_PLAIN = (pl.String, pl.Boolean, pl.Categorical, pl.Enum, pl.Null)
_READERS = {"number": as_numbers, "boolean": as_truth, "category": as_text}


def _refuse(bad: pl.Series, values: pl.Series, name: str, first_row: int, wanted: str) -> None:
    rows = bad.arg_true()
    if len(rows):
        raise TableError(
            f"Column {name!r} has {values[rows[0]]!r} in row {first_row + rows[0]} where {wanted} "
            "should be. Correct it, or drop the row."
        )


def suggest(name: str, choices: Iterable[str]) -> str:
    """ " Did you mean ...?", or nothing.

    >>> suggest("prise", ["price", "rooms"])
    " Did you mean 'price'?"
    """
    known = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


def _listing(names: Iterable[str], most: int = 8) -> str:
    every = list(names)
    shown = ", ".join(every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"
