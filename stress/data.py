"""A small data set in the published layout, which calls itself yacht."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

__all__ = ["small_table", "write_data"]

Split = tuple[Iterable[int], Iterable[int]]  # rows for training and for testing


def small_table(generator: np.random.Generator) -> np.ndarray:
    """40 rows of two features and a target."""
    X = generator.uniform(-2.0, 2.0, (40, 2))
    y = 10.0 + 3.0 * np.sin(2.0 * X[:, 0]) * X[:, 1] + generator.normal(0.0, 0.1, 40)
    return np.c_[X, y]


def write_data(folder: Path, table: np.ndarray, splits: Sequence[Split]) -> None:
    """A table with the target in its last column, its splits, and the registry of all the files."""
    contents = {
        "data.txt": "\n".join(" ".join(map(repr, row)) for row in table.tolist()),
        "index_features.txt": "\n".join(map(str, range(table.shape[1] - 1))),
        "index_target.txt": str(table.shape[1] - 1),
        "n_splits.txt": str(len(splits)),
    }
    for number, (train, test) in enumerate(splits):
        contents[f"index_train_{number}.txt"] = "\n".join(map(str, train))
        contents[f"index_test_{number}.txt"] = "\n".join(map(str, test))
    registry = []
    for name, text in contents.items():
        path = f"UCI_Datasets/yacht/data/{name}"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        registry.append(f"{path} {hashlib.sha256(text.encode()).hexdigest()} {len(text)}")
    (folder / "registry.txt").write_text("\n".join(registry))
