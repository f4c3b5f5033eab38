"""Columns to be predicted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from deepwishart.tables.columns import TableError, as_numbers, as_text
from deepwishart.tables.encoder import require_columns

__all__ = ["read_targets"]


def read_targets(table: pl.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Target columns as numbers, ``(N, D)``.

    Raises:
        TableError: a column that does not exist, is given twice, is no column of numbers, has
            missing values, or is constant.

    >>> read_targets(pl.DataFrame({"x": [1, 2], "y": ["0.5", "2"]}), ["y"]).tolist()
    [[0.5], [2.0]]
    """
    require_columns(table, names)
    if len(set(names)) < len(names):
        raise TableError(f"A target is named twice in {', '.join(names)}.")
    return np.stack([_read_target(table[name], name) for name in names], axis=1)


def _read_target(values: pl.Series, name: str) -> np.ndarray:
    text = as_text(values, name)
    if values.dtype == pl.Boolean or not text.cast(pl.Float64, strict=False).is_not_null().any():
        example = next(iter(text.drop_nulls().head(1)), None)
        found = "no values at all" if example is None else f"{example!r}, for example"
        raise TableError(
            f"The target {name!r} is no column of numbers: it has {found}. A target has to be a "
            "number for regression."
        )
    numbers = as_numbers(values, name)
    if numbers.null_count():
        raise TableError(
            f"The target {name!r} has {numbers.null_count()} missing values, the first in row "
            f"{numbers.is_null().arg_true()[0] + 1}. Drop the rows without a target: there is "
            "nothing to learn from them."
        )
    if numbers.n_unique() == 1:
        raise TableError(
            f"The target {name!r} is {numbers[0]:g} in every row; there is nothing to predict."
        )
    return numbers.to_numpy()
