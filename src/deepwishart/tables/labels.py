"""Target columns of classes: text, true or false, or numbers that are said to be categories."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import polars as pl

from deepwishart.tables.columns import MISSING, as_text
from deepwishart.tables.problems import TableError, listing, quoted

_MOST_CLASSES = 100


def holds_classes(table: pl.DataFrame, name: str, missing: Collection[str] = MISSING) -> bool:
    """Whether a target column has text or truth values, and so names classes.

    >>> table = pl.DataFrame({"size": ["1", "2.5"], "colour": ["red", "NA"], "new": [True, False]})
    >>> [holds_classes(table, name) for name in table.columns]
    [False, True, True]
    """
    if table[name].dtype == pl.Boolean:
        return True
    text = as_text(pl.DataFrame([table[name]]), missing).to_series().drop_nulls()
    return len(text) > 0 and text.cast(pl.Float64, strict=False).null_count() == len(text)


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
