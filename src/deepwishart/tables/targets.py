"""Columns to be predicted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from deepwishart.tables.columns import TableError, as_text, listing, quoted, read_values
from deepwishart.tables.encoder import require_columns

__all__ = ["read_targets"]

LARGEST = 1e300


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
    for name, column in targets.to_dict().items():
        if column.null_count():
            raise TableError(
                f"The target {quoted(name)} has {column.null_count()} missing values, the first "
                f"in row {column.to_list().index(None) + 1}. Drop the rows without a target: "
                "there is nothing to learn from them."
            )
        if (largest := float(np.abs(column.to_numpy()).max())) > LARGEST:
            raise TableError(
                f"The target {quoted(name)} has values up to {largest:g}; predictions beyond "
                f"{LARGEST:g} would be infinite. Divide the column by a constant first."
            )
        if column.n_unique() == 1:
            raise TableError(
                f"The target {quoted(name)} is {column[0]:g} in every row; there is nothing to "
                "predict."
            )
    return targets.to_numpy()
