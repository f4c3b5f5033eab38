"""What the columns of a table are, and their values: numbers, true or false, or categories."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from deepwishart._support.choices import suggest

KINDS = ("number", "boolean", "category")
# Spellings of a missing value, in lower case; an empty field is one too.
MISSING = ("", "na", "n/a", "nan", "null", "?")
_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
_TEXT = (pl.String, pl.Categorical, pl.Enum, pl.Null)
_PLAIN = (*_TEXT, pl.Boolean)
_WANTED = {"number": "a number", "boolean": "true or false"}
_LONGEST = 60
_LARGEST = 1e300


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
    """Trimmed text, null where a value is missing; ``names`` of the columns are for messages.

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

    ``kinds`` are those of the columns to read, ``first_row`` is the number of the first row.

    >>> table = pl.DataFrame({"x": ["1", " 2.5 ", "NA"], "new": ["True", None, "0"]})
    >>> read_values(table, {"x": "number", "new": "boolean"}).rows()
    [(1.0, 1.0), (2.5, None), (None, 0.0)]
    """
    names = list(kinds)
    # By number: a name such as ^x.*$ would be taken for a pattern.
    typed = pl.DataFrame([table[name].alias(str(index)) for index, name in enumerate(names)])
    text = as_text(typed, names)
    readers = []
    for number, kind in zip(typed.columns, kinds.values(), strict=True):
        reader = pl.col(number)
        if kind == "boolean":
            lower = reader.str.to_lowercase()
            reader = lower.replace_strict(_TRUTH, default=None, return_dtype=pl.Float64)
        elif kind == "number":
            reader = reader.cast(pl.Float64, strict=False).fill_nan(None)
        readers.append(reader)
    # Numbers need no detour through text.
    direct = [
        pl.col(number).cast(pl.Float64).fill_nan(None)
        for (number, dtype), kind in zip(typed.schema.items(), kinds.values(), strict=True)
        if kind == "number" and dtype not in _TEXT
    ]
    values = text.select(readers).with_columns(typed.select(direct))
    values.columns = text.columns = names
    _refuse_odd(values, text, kinds, first_row)
    return values


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


def read_targets(table: pl.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Target columns as numbers, ``(N, D)``.

    Raises:
        TableError: a column that does not exist, is given twice, is no column of numbers, has
            missing values or values near the largest that a computer knows, or is constant.

    >>> read_targets(pl.DataFrame({"x": [1, 2], "y": ["0.5", "2"]}), ["y"]).tolist()
    [[0.5], [2.0]]
    """
    require_columns(table, names)
    if len(set(names)) < len(names):
        raise TableError(f"A target is named twice in {listing(names)}.")
    text = as_text(pl.DataFrame([table[name] for name in names]))
    numbers = text.select(pl.all().cast(pl.Float64, strict=False)).null_count().row(0)
    for name, unread in zip(names, numbers, strict=True):
        if table[name].dtype == pl.Boolean or unread == len(table):
            example = next((value for value in text[name] if value is not None), None)
            found = "no values at all" if example is None else f"{quoted(example)}, for example"
            raise TableError(
                f"The target {quoted(name)} is no column of numbers: it has {found}. A target has "
                "to be a number for regression."
            )
    targets = read_values(table, dict.fromkeys(names, "number"))
    refuse_missing(targets, names)
    for name, column in targets.to_dict().items():
        if (largest := float(np.abs(column.to_numpy()).max())) > _LARGEST:
            raise TableError(
                f"The target {quoted(name)} has values up to {largest:g}; predictions beyond "
                f"{_LARGEST:g} would be infinite. Divide the column by a constant first."
            )
        if column.n_unique() == 1:
            raise TableError(
                f"The target {quoted(name)} is {column[0]:g} in every row; there is nothing to "
                "predict."
            )
    return targets.to_numpy()


def require_columns(table: pl.DataFrame, names: Iterable[str]) -> None:
    """Raise :class:`~deepwishart.tables.TableError` naming all columns that the table lacks."""
    present = table.columns
    missing = [name for name in names if name not in set(present)]
    if missing:
        raise TableError(
            f"The table has no column{'s' if len(missing) > 1 else ''} "
            f"{', '.join(quoted(name) for name in missing[:20])}."
            f"{suggest(missing[0], present, cutoff=0.5)} It has {listing(present, 20)}."
        )


def refuse_missing(values: pl.DataFrame, names: Collection[str], first_row: int = 1) -> None:
    """Raise :class:`~deepwishart.tables.TableError` if a value of these columns is missing."""
    for name, count in zip(values.columns, values.null_count().row(0), strict=True):
        if count and name in names:
            row = first_row + values[name].to_list().index(None)
            raise TableError(
                f"Column {quoted(name)} has {count} missing values, the first in row {row}. Fill "
                "them in, or leave those rows out. An input may be left out with --drop, or filled "
                "in by a model that is fitted with --impute median."
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
