"""From a table with columns of several kinds to columns of numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from deepwishart.tables.columns import Column, TableError, as_numbers, as_text, as_truth, suggest

__all__ = ["MAX_CATEGORIES", "TableEncoder", "require_columns"]

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
        names = [name for name in table.columns if name not in set(ignore)]
        if not names:
            raise TableError("The table has no columns left to predict from.")
        encoder = cls(
            tuple(
                _fit_column(table[name], name, name in categorical, impute, fill_from)
                for name in names
            )
        )
        features = encoder.feature_names
        if len(set(features)) < len(features):
            twice = next(name for name in features if features.count(name) > 1)
            raise TableError(
                f"Column {twice!r} has the name that a category of another column gets; rename it."
            )
        return encoder

    @classmethod
    def of_numbers(cls, names: Iterable[str]) -> TableEncoder:
        """The encoder of a table that has numbers in every column."""
        return cls(tuple(Column(name, "number") for name in names))

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of numbers."""
        return [name for column in self.columns for name in column.feature_names]

    def encode(self, table: pl.DataFrame, first_row: int = 1) -> pl.DataFrame:
        """The columns of numbers, in double precision.

        Args:
            table: with at least the columns of the training table.
            first_row: number of the table's first row, for messages.
        """
        require_columns(table, [column.name for column in self.columns])
        parts = [column.encode(table[column.name], first_row) for column in self.columns]
        return pl.concat(parts, how="horizontal")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> TableEncoder:
        """What :meth:`to_dict` gave."""
        return cls(tuple(Column.from_dict(column) for column in plain["columns"]))


def require_columns(table: pl.DataFrame, names: Iterable[str]) -> None:
    """Raise :class:`~deepwishart.tables.TableError` naming all columns that the table lacks."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        listed = ", ".join(repr(name) for name in missing)
        hint = "".join(suggest(name, table.columns) for name in missing[:1])
        raise TableError(
            f"The table has no column{'s' if len(missing) > 1 else ''} {listed}.{hint} It has "
            f"{', '.join(table.columns[:20])}{', ...' if len(table.columns) > 20 else ''}."
        )


def _fit_column(
    values: pl.Series,
    name: str,
    categorical: bool,
    impute: str | None,
    fill_from: Sequence[int] | None,
) -> Column:
    text = as_text(values, name)
    if text.null_count() == len(text):
        raise TableError(f"Column {name!r} has no values at all; leave it out with --drop.")
    kind = "category" if categorical else _kind(values, text, name)
    if text.null_count() and impute is None:
        raise TableError(
            f"Column {name!r} has {text.null_count()} missing values, the first in row "
            f"{text.is_null().arg_true()[0] + 1}. Fill them in, leave the column out with --drop, "
            "or have them filled in with --impute median."
        )
    known = pl.arange(len(values), eager=True) if fill_from is None else pl.Series(fill_from)
    if kind == "category":
        categories = tuple(sorted(text.drop_nulls().unique().to_list()))
        _check_number(categories, len(text), name, categorical)
        usual = _most_frequent(text.gather(known)) or categories[0]
        return Column(name, kind, categories, usual if impute else None)
    numbers = (as_truth if kind == "boolean" else as_numbers)(values, name)
    if not impute:
        return Column(name, kind)
    seen = numbers.gather(known)
    fill: Any = _most_frequent(seen) if kind == "boolean" else seen.median()
    # If all rows to learn from lack the value, any number does: it is a constant to the model.
    return Column(name, kind, fill=0.0 if fill is None else fill)


def _kind(values: pl.Series, text: pl.Series, name: str) -> str:
    """What a column is, from its type or, in text files, from all its values."""
    if values.dtype == pl.Boolean:
        return "boolean"
    if values.dtype.is_numeric():
        return "number"
    present = text.drop_nulls()
    if present.str.to_lowercase().is_in(["true", "false"]).all():
        return "boolean"
    is_number = present.cast(pl.Float64, strict=False).is_not_null()
    if is_number.all():
        return "number"
    if is_number.mean() > 0.5:  # type: ignore[operator]
        row = (text.cast(pl.Float64, strict=False).is_null() & text.is_not_null()).arg_true()[0]
        raise TableError(
            f"Column {name!r} holds numbers, but {text[row]!r} in row {row + 1}. Correct it, or, "
            f"if the column holds categories, say so with --categorical {name}."
        )
    return "category"


def _check_number(categories: Collection[str], num_rows: int, name: str, asked_for: bool) -> None:
    """Names and identifiers are no categories: almost every row has its own."""
    limit = min(MAX_CATEGORIES, max(10, num_rows // 2))
    if len(categories) > limit and not asked_for:
        raise TableError(
            f"Column {name!r} holds text with {len(categories)} different values in {num_rows} "
            f"rows, too many to be categories. Leave it out with --drop {name}, or insist with "
            f"--categorical {name}."
        )


def _most_frequent(values: pl.Series) -> Any:
    """The most frequent value, the smallest of them if there are several."""
    return values.drop_nulls().mode().min()
