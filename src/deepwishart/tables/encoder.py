"""From a table with columns of several kinds to columns of numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from deepwishart._support.arguments import check_choice, suggest
from deepwishart.tables.columns import (
    MISSING,
    OTHER,
    Column,
    as_text,
    numbers_of,
    read_values,
    refuse_missing,
    require_columns,
)
from deepwishart.tables.dates import PARTS, SLASHED, days_of, looks_like_date, parts_of
from deepwishart.tables.problems import Problems, TableError, listing, quoted

MAX_CATEGORIES = 100  # at least; the square root of the number of rows, if that is more
_ORDERS = {"day-first": True, "month-first": False}


@dataclass(frozen=True)
class TableEncoder:
    """What the columns of a training table were, so that another table can be read the same way.

    Numbers stay numbers, also with a currency, a per cent sign or separators between thousands; a
    time of day becomes hours, true and false become 1 and 0, a date becomes a column for each of
    its parts that vary (year, day of year, weekday, hour, days since the first), and a column of
    text becomes one column of 0 and 1 per category, of which the rarest become ``other`` if there
    are more than a hundred and than the square root of the number of rows. Other tables may have
    their columns in any order, and further columns, which are ignored. A category that the training
    table did not have is refused, unless :meth:`encode` is told otherwise.

    Missing values (an empty field, ``NA``, ``N/A``, ``NaN``, ``null``, ``?``, ``#N/A`` and other
    errors of Excel in text files) are refused by the name of their column, unless the encoder was
    fitted with ``impute="median"``: then a number or date becomes the median of the training rows,
    and a category or truth value the most frequent one; where half of a column or more is missing,
    another column says where.

    Args:
        columns: in the order of the training table.
        missing: spellings of a missing value; upper and lower case are the same.

    >>> table = pl.DataFrame({"size": ["1.5", "2"], "colour": ["red", "blue"]})
    >>> encoder = TableEncoder.fit(table)
    >>> encoder.feature_names
    ['size', 'colour=blue', 'colour=red']
    >>> encoder.encode(pl.DataFrame({"colour": ["blue"], "size": [3]})).rows()
    [(3.0, 1.0, 0.0)]
    """

    columns: tuple[Column, ...]
    missing: tuple[str, ...] = MISSING

    @classmethod
    def fit(
        cls,
        table: pl.DataFrame,
        *,
        ignore: Collection[str] = (),
        categorical: Collection[str] = (),
        impute: str | None = None,
        fill_from: Sequence[int] | None = None,
        missing: Sequence[str] = MISSING,
        rows: Sequence[int] | None = None,
        date_order: str | None = None,
    ) -> TableEncoder:
        """Decide what each column is.

        Args:
            table: training table, as :func:`~deepwishart.tables.open_table` reads it.
            ignore: columns that are no inputs: targets, and columns to leave out.
            categorical: columns of numbers that are categories, such as post codes.
            impute: ``None`` or ``"median"``.
            fill_from: rows from which to take medians and most frequent values; all if ``None``.
            missing: spellings of a missing value, besides an empty field.
            rows: what messages call the rows; 1, 2, ... if ``None``.
            date_order: ``"day-first"`` or ``"month-first"``: how to read ``05/01/2024``, which is
                refused where the column leaves it open.
        """
        if impute not in (None, "median"):
            raise TableError(f"impute must be None or 'median', got {impute!r}.")
        require_columns(table, [*ignore, *categorical])
        table = pl.DataFrame([table[name] for name in table.columns if name not in set(ignore)])
        if not table.width:
            raise TableError("The table has no columns left to predict from.")
        text, problems, rows = as_text(table, missing), Problems(), rows or range(1, len(table) + 1)
        kinds, day_first = find_kinds(table, text, set(categorical), rows, date_order, problems)
        if impute is None:
            with problems:
                refuse_missing(text, kinds, rows)
        values, odd = read_values(table, kinds, rows, missing, day_first)
        problems += odd.values()
        most = max(MAX_CATEGORIES, math.isqrt(len(table)))
        source = list(range(len(table)) if fill_from is None else fill_from)
        columns = []
        for name, kind in kinds.items():
            found, more = values[name].rename(""), dict[str, Any]()
            if kind == "date":
                more = {**_choose_parts(found), "day_first": day_first[name]}
            elif kind == "category":
                with problems:
                    more = _choose_categories(found, name, None if name in categorical else most)
            column = Column(name, kind, **more)
            if impute:
                known = found.replace(dict.fromkeys(column.pooled, column.other))[source]
                fill = _fill(known, kind, column.categories)
                column = replace(column, fill=fill, indicator=2 * known.null_count() >= len(known))
            columns.append(column)
        encoder = cls(tuple(columns), tuple(missing))
        for name, count in Counter(encoder.feature_names).items():
            if count > 1:
                problems.append(
                    f"Column {quoted(name)} has the name that a category or a part of another "
                    "column gets; rename it."
                )
        problems.settle()
        return encoder

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of numbers."""
        return [name for column in self.columns for name in column.feature_names]

    def encode(
        self, table: pl.DataFrame, rows: Sequence[int] | None = None, unseen: str = "error"
    ) -> pl.DataFrame:
        """The columns of numbers, in double precision.

        Args:
            table: another table, or the same.
            rows: what messages call the rows; 1, 2, ... if ``None``.
            unseen: what to do with a category that the training table did not have: ``"error"``
                refuses it; ``"other"`` takes it for the training table's category ``other``, or for
                none of its categories (0 in all their columns) where there is no such category.
        """
        require_columns(table, [column.name for column in self.columns])
        rows = rows or range(1, len(table) + 1)
        kinds = {column.name: column.kind for column in self.columns}
        first = {column.name: column.day_first for column in self.columns}
        values, odd = read_values(table, kinds, rows, self.missing, first)
        problems = Problems(odd.values())
        with problems:
            required = {each.name for each in self.columns if each.fill is None}
            refuse_missing(values, required - odd.keys(), rows)
        parts: list[pl.Expr] = []
        for index, column in enumerate(self.columns):
            part = pl.nth(index) if column.fill is None else pl.nth(index).fill_null(column.fill)
            found = [part]
            if column.kind == "category":
                with problems:
                    part = _take_unseen(part, values[column.name], column, rows, unseen)
                part = part.replace(dict.fromkeys(column.pooled, column.other))
                known = column.categories
                found = [part.eq_missing(pl.lit(each)).cast(pl.Float64) for each in known]
            elif column.kind == "date":
                every = parts_of(part, column.origin)
                found = [every[each] for each in column.parts]
            if column.indicator:
                found.append(pl.nth(index).is_null().cast(pl.Float64))
            names = column.feature_names
            parts += [each.alias(name) for each, name in zip(found, names, strict=True)]
        problems.settle()
        return values.select(parts)

    def unseen(self, table: pl.DataFrame) -> np.ndarray:
        """Which rows have a category that the training table did not have, ``(N,)``.

        >>> encoder = TableEncoder((Column("colour", "category", ("blue", "red")),))
        >>> encoder.unseen(pl.DataFrame({"colour": ["red", "pink"]}))
        array([False,  True])
        """
        known = {c.name: (*c.categories, *c.pooled) for c in self.columns if c.kind == "category"}
        values, _ = read_values(table, dict.fromkeys(known, "category"), missing=self.missing)
        new = np.zeros(len(table), dtype=bool)
        for name, each in known.items():
            new |= ~values[name].is_in(each).fill_null(True).to_numpy()
        return new

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        columns = [column.to_dict() for column in self.columns]
        return {"columns": columns, "missing": list(self.missing)}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> TableEncoder:
        """What :meth:`to_dict` gave."""
        missing = plain["missing"]
        if not (isinstance(missing, list) and all(isinstance(word, str) for word in missing)):
            raise TableError(f"{quoted(missing)} are no spellings of a missing value.")
        return cls(tuple(Column.from_dict(column) for column in plain["columns"]), tuple(missing))


def find_kinds(
    table: pl.DataFrame,
    text: pl.DataFrame,
    categorical: Collection[str],
    rows: Sequence[int],
    date_order: str | None,
    problems: list[str],
) -> tuple[dict[str, str], dict[str, bool | None]]:
    """What the columns are, from their types or, in text files, from all their values, and whether
    the day is first in those that are dates; those that are nothing in particular are described in
    ``problems``."""
    if date_order is not None:
        check_choice("date_order", date_order, tuple(_ORDERS))
    orders = [_ORDERS[date_order]] if date_order else list(_ORDERS.values())
    truth = text.select(pl.all().str.to_lowercase().is_in(["true", "false"]).all()).row(0)
    numbers = numbers_of(text)
    dates = text.select(looks_like_date(pl.all()).sum()).row(0)
    present = [len(text) - count for count in text.null_count().row(0)]
    numeric = [len(text) - count for count in numbers.null_count().row(0)]
    kinds, day_first = dict[str, str](), dict[str, bool | None]()
    for index, (name, dtype) in enumerate(table.schema.items()):
        if not present[index]:
            problems.append(
                f"Column {quoted(name)} has no values at all; leave it out with --drop."
            )
        elif name in categorical:
            kinds[name] = "category"
        elif truth[index]:
            kinds[name] = "boolean"
        elif dtype.is_numeric() or numeric[index] == present[index]:
            kinds[name] = "number"
        elif max(numeric[index], dates[index]) > 0.5 * present[index]:
            kind = "number" if numeric[index] > dates[index] else "date"
            column = text.get_column(name)
            read, ambiguous = numbers.get_column(name), None
            if kind == "date":
                read, day_first[name], ambiguous = _read_dates(column, orders)
            row = next(iter((read.is_null() & column.is_not_null()).arg_true()), None)
            if ambiguous is not None:
                problems.append(
                    f"Column {quoted(name)} has dates such as {quoted(column[ambiguous])} in row "
                    f"{rows[ambiguous]}, where day or month may come first. Say which with "
                    "--date-order day-first or --date-order month-first."
                )
            elif row is None:
                kinds[name] = kind
            else:
                problems.append(
                    f"Column {quoted(name)} holds {kind}s, but {quoted(column[row])} in row "
                    f"{rows[row]}. Correct it, or, if the column holds categories, say so with "
                    f"--categorical {quoted(name)[1:-1]}."
                )
        else:
            kinds[name] = "category"
    return kinds, day_first


def _read_dates(text: pl.Series, orders: Sequence[bool]) -> tuple[pl.Series, Any, int | None]:
    """Days, whether the day came first, if there are slashes, and a row that says another date in
    the other order, if both can be read."""
    frame = text.rename("0").to_frame()
    several = frame.select(pl.nth(0).str.contains(SLASHED).any()).item()
    found = [
        frame.select(days_of(pl.nth(0), order)).to_series()
        for order in orders[: 2 if several else 1]
    ]
    counts = [each.null_count() for each in found]
    best = counts.index(min(counts))
    differ: Iterable[int] = ()
    if counts == [text.null_count()] * 2:
        differ = (found[0] != found[1]).arg_true()
    return found[best], orders[best] if several else None, next(iter(differ), None)


def _choose_categories(values: pl.Series, name: str, most: int | None) -> dict[str, Any]:
    """The categories; more than ``most``, if there is a limit, and the rarest become other."""
    counts = Counter(value for value in values.to_list() if value is not None)
    if most is None:
        return {"categories": tuple(sorted(counts))}
    other = next((each for each in sorted(counts) if each.lower() == OTHER), OTHER)
    ranked = sorted(counts.keys() - {other}, key=lambda each: (-counts[each], each))
    pooled = ranked[most - 1 :] if len(counts) > most else []
    # Names and identifiers are no categories: almost every row has its own.
    rare = sum(counts[each] for each in pooled)
    if len(counts) > max(10, len(values) // 2) or 2 * rare > counts.total():
        shown = quoted(name)
        raise TableError(
            f"Column {shown} holds text with {len(counts)} different values in {len(values)} rows, "
            f"too many to be categories. Leave it out with --drop {shown[1:-1]}, or insist with "
            f"--categorical {shown[1:-1]}."
        )
    kept = {*counts, *([other] if pooled else [])} - {*pooled}
    return {"categories": tuple(sorted(kept)), "pooled": tuple(pooled)}


def _choose_parts(days: pl.Series) -> dict[str, Any]:
    """Those parts of dates that vary, elapsed days if none does."""
    origin = float(days.min() or 0.0)  # type: ignore[arg-type]
    found = days.rename("0").to_frame().select(**parts_of(pl.nth(0), origin)).drop_nulls()
    varying = tuple(part for part in PARTS if found.get_column(part).n_unique() > 1)
    return {"parts": varying or PARTS[-1:], "origin": origin}


def _take_unseen(
    part: pl.Expr, values: pl.Series, column: Column, rows: Sequence[int], unseen: str
) -> pl.Expr:
    """Categories as an expression that has known ones only, or ``TableError`` naming all others."""
    known = {*column.categories, *column.pooled, None}
    new: dict[str, int] = {}  # the first row of each
    for value, row in zip(values.to_list(), rows, strict=True):
        if value not in known:
            new.setdefault(value, row)
    if not new:
        return part
    if unseen == "other":
        return part.replace_strict(dict.fromkeys(new, column.other), default=part)
    some = list(new.items())[:20]
    named = ", ".join(f"{quoted(value)} (first in row {row})" for value, row in some)
    rest = f" and {len(new) - 20} more" if len(new) > 20 else ""
    raise TableError(
        f"Column {quoted(column.name)} has {len(new)} categories that the training data did not "
        f"have: {named}{rest}.{suggest(some[0][0], column.categories, cutoff=0.5)} Known "
        f"categories: {listing(column.categories)}. --unseen prior or --unseen other predicts "
        "nevertheless."
    )


def _fill(values: pl.Series, kind: str, categories: Sequence[str]) -> Any:
    """The median, or the most frequent value, the smallest of them if there are several."""
    present = values.rename("").drop_nulls()  # polars takes "^x$" for a pattern of names
    if present.is_empty():  # any value does: it is a constant to the model
        return categories[0] if kind == "category" else 0.0
    return present.median() if kind in ("number", "date") else present.mode().min()
