"""What the columns of a table are, and their values: numbers, true or false, or categories."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

__all__ = ["KINDS", "Column", "TableError", "as_text", "listing", "quoted", "read_values"]

KINDS = ("number", "boolean", "category")
# Spellings of a missing value, in lower case; an empty field is one too.
MISSING = ("", "na", "n/a", "nan", "null", "?")
_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
_TEXT = (pl.String, pl.Categorical, pl.Enum, pl.Null)
_PLAIN = (*_TEXT, pl.Boolean)
_WANTED = {"number": "a number", "boolean": "true or false"}
_LONGEST = 60


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

    >>> Column("colour", "category", ("blue", "red")).feature_names
    ('colour=blue', 'colour=red')
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

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "categories": list(self.categories)}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Column:
        """What :meth:`to_dict` gave; ``TableError`` for anything else."""
        name, kind, categories, fill = (plain[each] for each in cls.__dataclass_fields__)
        texts = isinstance(categories, list) and all(
            isinstance(t, str) for t in [name, *categories]
        )
        known = fill is None or (fill in categories if categories else type(fill) in (float, int))
        if not (texts and known and kind in KINDS and bool(categories) == (kind == "category")):
            raise TableError(f"{quoted(plain)} does not describe a column.")
        return cls(name, kind, tuple(categories), fill)


def as_text(table: pl.DataFrame, names: Sequence[str] | None = None) -> pl.DataFrame:
    """Trimmed text, null where a value is missing.

    Args:
        table: as read from a file.
        names: of its columns, for messages.

    >>> as_text(pl.DataFrame({"x": [" 2.5 ", "NA"], "n": [1, None]})).rows()
    [('2.5', '1'), (None, None)]
    """
    for name, dtype in zip(names or table.columns, table.dtypes, strict=True):
        if not (dtype.is_numeric() or dtype in _PLAIN):
            kind = "dates or times" if dtype.is_temporal() else f"values of type {dtype}"
            raise TableError(
                f"Column {quoted(name)} holds {kind}. Turn them into numbers first, for example "
                "into days since the first date, or leave the column out with --drop."
            )
    # One expression for all columns: a call for each costs more than its work in a wide table.
    text = table.select(pl.all().cast(pl.String).str.strip_chars())
    known = ~pl.all().str.to_lowercase().is_in(MISSING)
    return text.select(pl.when(known).then(pl.all()))


def read_values(table: pl.DataFrame, kinds: Mapping[str, str], first_row: int = 1) -> pl.DataFrame:
    """Columns as finite numbers, or as trimmed text if they hold categories; null where missing.

    Args:
        table: as read from a file.
        kinds: name and kind of each column to read.
        first_row: number of the table's first row, for messages.

    Raises:
        TableError: a value that is not of its column's kind, or infinite, with its row.

    >>> table = pl.DataFrame({"x": ["1", " 2.5 ", "NA"], "new": ["True", None, "0"]})
    >>> read_values(table, {"x": "number", "new": "boolean"}).rows()
    [(1.0, 1.0), (2.5, None), (None, 0.0)]
    """
    names = list(kinds)
    # By number: a name such as ^x.*$ would be taken for a pattern.
    typed = pl.DataFrame([table[name].alias(str(index)) for index, name in enumerate(names)])
    text = as_text(typed, names)
    readers = [
        _reader(pl.col(number), kinds[name])
        for number, name in zip(typed.columns, names, strict=True)
    ]
    values = text.select(readers)
    # Numbers need no detour through text.
    direct = [
        pl.col(number).cast(pl.Float64).fill_nan(None)
        for number, name in zip(typed.columns, names, strict=True)
        if kinds[name] == "number" and typed[number].dtype not in _TEXT
    ]
    values = values.with_columns(typed.select(direct))
    values.columns = text.columns = names
    _refuse_odd(values, text, kinds, first_row)
    return values


def _reader(text: pl.Expr, kind: str) -> pl.Expr:
    if kind == "boolean":
        lower = text.str.to_lowercase()
        return lower.replace_strict(_TRUTH, default=None, return_dtype=pl.Float64)
    return text.cast(pl.Float64, strict=False).fill_nan(None) if kind == "number" else text


def _refuse_odd(
    values: pl.DataFrame, text: pl.DataFrame, kinds: Mapping[str, str], first_row: int
) -> None:
    unread, missing = values.null_count().row(0), text.null_count().row(0)
    numbers = values.select(pl.col(pl.Float64).is_infinite().any())
    infinite = dict(zip(numbers.columns, numbers.row(0), strict=True)) if numbers.width else {}
    for index, name in enumerate(kinds):
        if unread[index] == missing[index] and not infinite.get(name):
            continue
        # Lists, since polars takes a name such as ^x.*$ for a pattern in methods of a series, too.
        for row, (value, read) in enumerate(
            zip(text[name].to_list(), values[name].to_list(), strict=True), start=first_row
        ):
            if value is not None and (read is None or read in (math.inf, -math.inf)):
                wanted = _WANTED[kinds[name]] if read is None else "a finite number"
                raise TableError(
                    f"Column {quoted(name)} has {quoted(value)} in row {row} where {wanted} "
                    "should be. Correct it, or drop the row."
                )


def quoted(value: object) -> str:
    r"""A name or value from a table as messages show it: on one line, and not for ever.

    >>> quoted("a\nb"), len(quoted("x" * 1000))
    ("'a\\nb'", 65)
    """
    text = str(value)
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def listing(names: Iterable[str], most: int = 8) -> str:
    """The first few names, and how many more there are."""
    every = list(names)
    shown = ", ".join(quoted(name)[1:-1] for name in every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"
