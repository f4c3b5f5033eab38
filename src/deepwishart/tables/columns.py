"""What the columns of a table are, and their values: numbers, truth, dates or categories; and
targets, which are numbers or classes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import polars as pl

from deepwishart._support.arguments import suggest
from deepwishart.tables.dates import PARTS, days_of
from deepwishart.tables.dialect import AFTER, BEFORE, CURRENCY
from deepwishart.tables.problems import Problems, TableError, listing, quoted

KINDS = ("number", "boolean", "date", "category")
# Spellings of a missing value, Excel's errors among them, in lower case; so is an empty field.
MISSING = (
    *("na", "n/a", "n.a.", "nan", "null", "<na>", "?"),
    *("#n/a", "#na", "#null!", "#div/0!", "#num!", "#value!", "#ref!", "#name?"),
)
_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
_TEXT = (pl.String, pl.Categorical, pl.Enum, pl.Null)
_PLAIN = (*_TEXT, pl.Boolean, pl.Date, pl.Datetime, pl.Time)
_WANTED = {
    "number": "a finite number of at most 1e300",
    "boolean": "true or false",
    "date": "a date",
}
_LARGEST = 1e300  # models compute a little beyond their data
_MOST_CLASSES = 100
OTHER = "other"
_MARKS = rf"[{CURRENCY}%,'\x{{2019}}\s]"
# 1,022.50 or 12, with a currency or a per cent sign; separators between thousands are of one kind.
_THOUSANDS = "|".join(
    rf"[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+" for mark in (",", r"['\x{2019}]", r"\s")
)
_MARKED = rf"^{BEFORE}(?:{_THOUSANDS}|[0-9]+)(?:\.[0-9]*)?{AFTER}$"
_CLOCK = r"^([0-9]+):([0-5][0-9])(?::([0-5][0-9](?:\.[0-9]+)?))?$"


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes one or several columns of numbers.

    Args:
        name: of the column.
        kind: ``"number"``, ``"boolean"`` (0 and 1), ``"date"`` (one column for every part) or
            ``"category"`` (one column of 0 and 1 for every category).
        categories: the categories, in alphabetical order.
        fill: what a missing value becomes; ``None``: missing values are refused.
        parts: of a date, some of year, day of year, weekday, hour and elapsed days.
        origin: from when days elapse, in days since 1970.
        day_first: whether ``05/01/2024`` is in January; ``None``: there is no such date.
        pooled: rare categories that count as :attr:`other`.
        indicator: whether a column of 0 and 1 says where a value is missing.

    >>> Column("colour", "category", ("blue", "red")).feature_names
    ('colour=blue', 'colour=red')
    >>> Column("sold", "date", parts=("year", "weekday")).feature_names
    ('sold: year', 'sold: weekday')
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    fill: float | str | None = None
    parts: tuple[str, ...] = ()
    origin: float = 0.0
    day_first: bool | None = None
    pooled: tuple[str, ...] = ()
    indicator: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of numbers."""
        names: tuple[str, ...] = (self.name,)
        if self.kind == "date":
            names = tuple(f"{self.name}: {part}" for part in self.parts)
        if self.kind == "category":
            names = tuple(f"{self.name}={category}" for category in self.categories)
        return (*names, f"{self.name}: missing") if self.indicator else names

    @property
    def other(self) -> str | None:
        """The category for what is none of the others, if there is one."""
        return next((each for each in self.categories if each.lower() == OTHER), None)

    @property
    def remarks(self) -> list[str]:
        """What a person should know of how the column is read."""
        pooled = f"its {len(self.pooled)} rarest categories count as {self.other}"
        filled = "half of it or more is missing and filled in; an input says where"
        said = {pooled: self.pooled, filled: self.indicator}
        return [f"{quoted(self.name)[1:-1]}: {each}" for each, true in said.items() if true]

    def __str__(self) -> str:
        rare = f", {len(self.pooled)} more as {self.other}" if self.pooled else ""
        detail = {
            "category": f"{len(self.categories)} categories{rare}",
            "date": f"date: {', '.join(self.parts)}",
        }
        return f"{self.name} ({detail.get(self.kind, self.kind)})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        every = asdict(self).items()
        return {name: list(each) if isinstance(each, tuple) else each for name, each in every}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Column:
        """What :meth:`to_dict` gave; ``TableError`` for anything else."""
        plain = {"day_first": None, "pooled": [], "indicator": False} | plain
        every = [plain[each.name] for each in fields(cls)]
        name, kind, categories, fill, parts, origin, day_first, pooled, indicator = every
        lists = all(isinstance(each, list) for each in (categories, parts, pooled))
        if not (
            lists
            and {type(text) for text in (name, *categories, *pooled)} == {str}
            and (not pooled or any(each.lower() == OTHER for each in categories))
            and isinstance(indicator, bool)
            and day_first in (None, True, False)
            and (fill is not None or not indicator)
            and set(parts) <= set(PARTS)
            and type(origin) is float
            and (fill is None or (fill in categories if categories else _plain_number(fill)))
            and (bool(categories), bool(parts)) == (kind == "category", kind == "date")
            and kind in KINDS
        ):
            raise TableError(f"{quoted(plain)} does not describe a column.")
        several = {"categories": tuple(categories), "parts": tuple(parts), "pooled": tuple(pooled)}
        return cls(**{each.name: plain[each.name] for each in fields(cls)} | several)


def _plain_number(value: Any) -> bool:
    """A number that polars has room for."""
    return type(value) is float or (type(value) is int and abs(value) < 2**63)


def as_text(
    table: pl.DataFrame, missing: Collection[str] = MISSING, names: Sequence[str] | None = None
) -> pl.DataFrame:
    """Trimmed text, null where a value is missing; ``names`` of the columns are for messages.

    >>> as_text(pl.DataFrame({"x": [" 2.5 ", "NA"], "n": [1, None]})).rows()
    [('2.5', '1'), (None, None)]
    """
    Problems(
        f"Column {quoted(name)} holds "
        f"{'durations' if dtype.is_temporal() else f'values of type {dtype}'}. "
        "Turn them into numbers first, or leave the column out with --drop."
        for name, dtype in zip(names or table.columns, table.dtypes, strict=True)
        if not (dtype.is_numeric() or dtype in _PLAIN)
    ).settle()
    # One expression for all columns: a call for each costs more than its work in a wide table.
    text = table.select(pl.all().cast(pl.String).str.strip_chars())
    spellings = ["", *(word.strip().lower() for word in missing)]
    known = ~pl.all().str.to_lowercase().is_in(spellings)
    return text.select(pl.when(known).then(pl.all()))


def numbers_of(text: pl.DataFrame) -> pl.DataFrame:
    """Numbers in trimmed text: also ``$1,022.50``, ``12.3%`` as 0.123 and ``14:30`` as 14.5 hours;
    null where a text is none, or has another sign than the first of its column.

    >>> text = pl.DataFrame(
    ...     {"x": ["$1,022", "-2e3", "$.5", "€3"], "t": ["14:30", "12.5%", "", "x"]}
    ... )
    >>> numbers_of(text).to_dict(as_series=False)
    {'x': [1022.0, -2000.0, None, None], 't': [14.5, 0.125, None, None]}
    """
    plain = text.select(pl.all().cast(pl.Float64, strict=False))
    missing, unread = text.null_count().row(0), plain.null_count().row(0)
    for index in range(text.width):
        each = pl.nth(index)
        # In the few columns that need it: patterns take longer than plain numbers.
        special = each.str.contains(f"{_MARKED}|{_CLOCK}").any()
        if unread[index] == missing[index] or not text.select(special).item():
            continue
        sign = each.str.extract(rf"([{CURRENCY}%])")
        known = sign.is_null() | (sign == sign.drop_nulls().first())
        marked = pl.when(each.str.contains(_MARKED) & known).then(each.str.replace_all(_MARKS, ""))
        number = marked.cast(pl.Float64) / pl.when(sign == "%").then(100.0).otherwise(1.0)
        clock = [each.str.extract(_CLOCK, part).cast(pl.Float64) for part in (1, 2, 3)]
        time = clock[0] + clock[1] / 60 + clock[2].fill_null(0.0) / 3600
        found = text.select(pl.coalesce(each.cast(pl.Float64, strict=False), number, time))
        plain.replace_column(index, found.to_series())
    return plain


def read_values(
    table: pl.DataFrame,
    kinds: Mapping[str, str],
    rows: Sequence[int] | None = None,
    missing: Collection[str] = MISSING,
    day_first: Mapping[str, bool | None] | None = None,
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Columns as finite numbers, or as trimmed text if they hold categories; null where missing.

    Dates are days since 1970. ``kinds`` are those of the columns to read, ``rows`` the numbers of
    the rows, from 1 on if ``None``; ``day_first`` says in which columns dates begin so. Values that
    cannot be read, or are beyond 1e300, become null, and each column that has any gets a sentence.

    >>> table = pl.DataFrame({"x": ["1", " 2.5 ", "NA"], "new": ["True", None, "0"]})
    >>> read_values(table, {"x": "number", "new": "boolean"})[0].rows()
    [(1.0, 1.0), (2.5, None), (None, 0.0)]
    """
    names = list(kinds)
    # By number: a name such as ^x.*$ would be taken for a pattern.
    typed = pl.DataFrame([table[name].alias(str(index)) for index, name in enumerate(names)])
    text = as_text(typed, missing, names)
    numeric = {n for n, kind in zip(typed.columns, kinds.values(), strict=True) if kind == "number"}
    # Numbers need no detour through text.
    direct = {n for n in numeric if typed[n].dtype.is_numeric() or typed[n].dtype == pl.Boolean}
    written = numbers_of(text.select(sorted(numeric - direct)))
    readers = []
    for number, (name, kind) in zip(typed.columns, kinds.items(), strict=True):
        reader = pl.col(number)
        if kind == "boolean":
            lower = reader.str.to_lowercase()
            reader = lower.replace_strict(_TRUTH, default=None, return_dtype=pl.Float64)
        elif kind == "number":
            reader = reader.cast(pl.Float64, strict=False)
            reader = pl.when(reader.abs() <= _LARGEST).then(reader)
        elif kind == "date":
            reader = days_of(reader, (day_first or {}).get(name))
        readers.append(reader.alias(number))
    values = text.with_columns(*typed.select(direct), *written).select(readers)
    values.columns = text.columns = names
    return values, dict(_odd_values(values, text, kinds, rows or range(1, len(table) + 1)))


def _odd_values(
    values: pl.DataFrame, text: pl.DataFrame, kinds: Mapping[str, str], rows: Sequence[int]
) -> Iterator[tuple[str, str]]:
    """Columns with a value that could not be read, and a sentence about each."""
    unread, missing = values.null_count().row(0), text.null_count().row(0)
    for index, (name, kind) in enumerate(kinds.items()):
        if unread[index] == missing[index]:
            continue
        # Lists, since polars takes a name such as ^x.*$ for a pattern in methods of a series, too.
        pairs = zip(rows, text[name].to_list(), values[name].to_list(), strict=True)
        odd = [(row, each) for row, each, read in pairs if each is not None and read is None]
        row, value = odd[0]
        more = f" and {len(odd) - 1} more such values" if len(odd) > 1 else ""
        yield (
            name,
            f"Column {quoted(name)} has {quoted(value)} in row {row}{more} where {_WANTED[kind]} "
            "should be. Correct it, or drop the row.",
        )


def read_targets(
    table: pl.DataFrame, names: Sequence[str], missing: Collection[str] = MISSING
) -> np.ndarray:
    """Target columns as numbers, ``(N, D)``; NaN where one is missing.

    Raises:
        TableError: a column that does not exist, is given twice, is constant, or has values that
            cannot be read.

    >>> read_targets(pl.DataFrame({"x": [1, 2], "y": ["0.5", "NA"]}), ["y"]).tolist()
    [[0.5], [nan]]
    """
    require_columns(table, names)
    if len(set(names)) < len(names):
        raise TableError(f"A target is named twice in {listing(names)}.")
    values, odd = read_values(table, dict.fromkeys(names, "number"), missing=missing)
    problems = Problems()
    for name in names:
        column = values[name].rename("").drop_nulls()  # polars takes "^x$" for a pattern of names
        if name in odd:
            problems.append(odd[name])
        elif column.is_empty() or (len(column) > 1 and column.n_unique() == 1):
            found = (
                "has no values at all" if column.is_empty() else f"is {column[0]:g} in every row"
            )
            problems.append(f"The target {quoted(name)} {found}; there is nothing to predict.")
    problems.settle()
    return values.fill_null(math.nan).to_numpy()


def holds_classes(table: pl.DataFrame, name: str, missing: Collection[str] = MISSING) -> bool:
    """Whether a target column has text or truth values, and so names classes.

    >>> table = pl.DataFrame({"size": ["1", "2.5"], "colour": ["red", "NA"], "new": [True, False]})
    >>> [holds_classes(table, name) for name in table.columns]
    [False, True, True]
    """
    if table[name].dtype == pl.Boolean:
        return True
    text = as_text(pl.DataFrame([table[name]]), missing).to_series().drop_nulls()
    return len(text) > 0 and numbers_of(text.to_frame()).to_series().null_count() == len(text)


def read_labels(
    table: pl.DataFrame, name: str, missing: Collection[str] = MISSING
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Numbers of classes ``(N, 1)``, NaN where a label is missing, and the labels in order.

    Raises:
        TableError: one class only, or so many that they are names rather than classes.

    >>> numbers, classes = read_labels(pl.DataFrame({"y": ["b", "a", None, "b"]}), "y")
    >>> numbers.ravel().tolist(), classes
    ([1.0, 0.0, nan, 1.0], ('a', 'b'))
    """
    text = as_text(pl.DataFrame([table[name]]), missing).to_series()
    classes = tuple(text.drop_nulls().unique().sort().to_list())
    if len(classes) < 2:
        found = f"is {quoted(classes[0])} in every row" if classes else "has no values at all"
        raise TableError(f"The target {quoted(name)} {found}; there is nothing to predict.")
    if len(classes) > min(_MOST_CLASSES, len(text) // 2):
        raise TableError(
            f"The target {quoted(name)} is text with {len(classes)} different values in "
            f"{len(text)} rows, such as {listing(classes, 3)}: too many for classes. If they are "
            "numbers with a unit, leave numbers only."
        )
    places = {label: float(number) for number, label in enumerate(classes)}
    numbers = [places.get(label, np.nan) for label in text.to_list()]
    return np.array(numbers)[:, None], classes


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


def refuse_missing(values: pl.DataFrame, names: Collection[str], rows: Sequence[int]) -> None:
    """Raise :class:`~deepwishart.tables.TableError` naming those columns that lack values."""
    problems = Problems()
    for name, count in zip(values.columns, values.null_count().row(0), strict=True):
        if count and name in names:
            row = rows[values[name].to_list().index(None)]
            problems.append(
                f"Column {quoted(name)} has {count} missing values, the first in row {row}. Fill "
                "them in, leave those rows out, or fit with --impute median, or with --drop for "
                "the column."
            )
    problems.settle()
