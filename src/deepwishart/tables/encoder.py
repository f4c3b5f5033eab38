"""From a table with columns of several kinds to columns of numbers."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from deepwishart._support.choices import suggest
from deepwishart.tables.columns import (
    Column,
    TableError,
    as_text,
    listing,
    quoted,
    read_values,
    refuse_missing,
    require_columns,
)

MAX_CATEGORIES = 100


@dataclass(frozen=True)
class TableEncoder:
    """What the columns of a training table were, so that another table can be read the same way.

    Numbers stay numbers, true and false become 1 and 0, and a column of text becomes one column of
    0 and 1 per category. Other tables may have their columns in any order, and further columns,
    which are ignored. A category that the training table did not have is refused.

    Missing values (an empty field, ``NA``, ``N/A``, ``NaN``, ``null`` or ``?`` in text files) are
    refused by the name of their column, unless the encoder was fitted with ``impute="median"``:
    then a number becomes the median of the training rows, and a category or truth value the most
    frequent one.

    Args:
        columns: in the order of the training table.

    >>> table = pl.DataFrame({"size": ["1.5", "2"], "colour": ["red", "blue"]})
    >>> encoder = TableEncoder.fit(table)
    >>> encoder.feature_names
    ['size', 'colour=blue', 'colour=red']
    >>> encoder.encode(pl.DataFrame({"colour": ["blue"], "size": [3]})).rows()
    [(3.0, 1.0, 0.0)]
    """

    columns: tuple[Column, ...]

    @classmethod
    def fit(
        cls,
        table: pl.DataFrame,
        *,
        ignore: Collection[str] = (),
        categorical: Collection[str] = (),
        impute: str | None = None,
        fill_from: Sequence[int] | None = None,
    ) -> TableEncoder:
        """Decide what each column is.

        Args:
            table: training table, as :func:`~deepwishart.tables.read_table` gives it.
            ignore: columns that are no inputs: targets, and columns to leave out.
            categorical: columns of numbers that are categories, such as post codes.
            impute: ``None`` or ``"median"``.
            fill_from: rows from which to take medians and most frequent values; all if ``None``.
        """
        if impute not in (None, "median"):
            raise TableError(f"impute must be None or 'median', got {impute!r}.")
        require_columns(table, [*ignore, *categorical])
        table = pl.DataFrame([table[name] for name in table.columns if name not in set(ignore)])
        if not table.width:
            raise TableError("The table has no columns left to predict from.")
        text = as_text(table)
        kinds = _find_kinds(table, text, set(categorical))
        if impute is None:
            refuse_missing(text, text.columns)
        values = read_values(table, kinds)
        rows = range(len(table)) if fill_from is None else fill_from
        columns = []
        for name, kind in kinds.items():
            every = values[name].to_list()
            categories = tuple(sorted(set(every) - {None})) if kind == "category" else ()
            if name not in categorical:
                _check_number(categories, len(table), name)
            fill = _fill([every[row] for row in rows], kind, categories) if impute else None
            columns.append(Column(name, kind, categories, fill))
        encoder = cls(tuple(columns))
        for name, count in Counter(encoder.feature_names).items():
            if count > 1:
                raise TableError(
                    f"Column {quoted(name)} has the name that a category of another column gets; "
                    "rename it."
                )
        return encoder

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of numbers."""
        return [name for column in self.columns for name in column.feature_names]

    def encode(self, table: pl.DataFrame, first_row: int = 1) -> pl.DataFrame:
        """The columns of numbers, in double precision; messages count rows from ``first_row``."""
        require_columns(table, [column.name for column in self.columns])
        kinds = {column.name: column.kind for column in self.columns}
        values = read_values(table, kinds, first_row)
        refuse_missing(values, {each.name for each in self.columns if each.fill is None}, first_row)
        parts = []
        for index, column in enumerate(self.columns):
            part = pl.nth(index) if column.fill is None else pl.nth(index).fill_null(column.fill)
            if column.kind == "category":
                _check_known(values[column.name], column, first_row)
                named = zip(column.feature_names, column.categories, strict=True)
                parts += [(part == each).cast(pl.Float64).alias(name) for name, each in named]
            else:
                parts.append(part)
        return values.select(parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> TableEncoder:
        """What :meth:`to_dict` gave."""
        return cls(tuple(Column.from_dict(column) for column in plain["columns"]))


def _find_kinds(
    table: pl.DataFrame, text: pl.DataFrame, categorical: Collection[str]
) -> dict[str, str]:
    """What the columns are, from their types or, in text files, from all their values."""
    truth = text.select(pl.all().str.to_lowercase().is_in(["true", "false"]).all()).row(0)
    numbers = text.select(pl.all().cast(pl.Float64, strict=False))
    present = [len(text) - count for count in text.null_count().row(0)]
    numeric = [len(text) - count for count in numbers.null_count().row(0)]
    kinds = {}
    for index, (name, dtype) in enumerate(table.schema.items()):
        if not present[index]:
            raise TableError(
                f"Column {quoted(name)} has no values at all; leave it out with --drop."
            )
        if name in categorical:
            kinds[name] = "category"
        elif truth[index]:
            kinds[name] = "boolean"
        elif dtype.is_numeric() or numeric[index] == present[index]:
            kinds[name] = "number"
        elif numeric[index] > 0.5 * present[index]:
            pairs = zip(text[name].to_list(), numbers[name].to_list(), strict=True)
            row, odd = next(
                (row, value)
                for row, (value, number) in enumerate(pairs, start=1)
                if value is not None and number is None
            )
            raise TableError(
                f"Column {quoted(name)} holds numbers, but {quoted(odd)} in row {row}. Correct it, "
                "or, if the column holds categories, say so with --categorical "
                f"{quoted(name)[1:-1]}."
            )
        else:
            kinds[name] = "category"
    return kinds


def _check_number(categories: Collection[str], num_rows: int, name: str) -> None:
    """Names and identifiers are no categories: almost every row has its own."""
    if len(categories) > min(MAX_CATEGORIES, max(10, num_rows // 2)):
        shown = quoted(name)
        raise TableError(
            f"Column {shown} holds text with {len(categories)} different values in {num_rows} "
            f"rows, too many to be categories. Leave it out with --drop {shown[1:-1]}, or insist "
            f"with --categorical {shown[1:-1]}."
        )


def _check_known(values: pl.Series, column: Column, first_row: int) -> None:
    known = {*column.categories, None}
    for row, value in enumerate(values.to_list()):
        if value not in known:
            raise TableError(
                f"Column {quoted(column.name)} has the category {quoted(value)} in row "
                f"{first_row + row}, which the training data did not have."
                f"{suggest(value, column.categories, cutoff=0.5)} Known categories: "
                f"{listing(column.categories)}."
            )


def _fill(values: list[Any], kind: str, categories: Sequence[str]) -> float | str:
    """The median, or the most frequent value, the smallest of them if there are several."""
    present = [value for value in values if value is not None]
    if not present:  # any value does: it is a constant to the model
        return categories[0] if kind == "category" else 0.0
    if kind == "number":
        return float(statistics.median(present))
    return min(statistics.multimode(present))
