"""A data set with its published splits, as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepwishart.reproduction.datasets.catalogue import entry
from deepwishart.reproduction.datasets.source import DataFileError, Source


class Split(NamedTuple):
    """Training and test rows: inputs ``(N, num_features)`` and targets ``(N,)``, float64."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Dataset:
    """All rows of a data set, and which of them each split trains and tests on.

    Args:
        X, y: inputs ``(N, num_features)`` and targets ``(N,)``, float64, in original units.
        splits: for every split, row numbers for training and row numbers for testing.

    >>> rows = np.arange(4.0)
    >>> example = Dataset("lines", rows[:, None], 2 * rows, ((np.array([0, 1, 3]), np.array([2])),))
    >>> example.split(0).y_test
    array([4.])
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]

    @property
    def num_splits(self) -> int:
        """Number of splits."""
        return len(self.splits)

    def split(self, index: int) -> Split:
        """The rows of split number ``index``, from 0."""
        if not 0 <= index < self.num_splits:
            raise ValueError(
                f"{self.name} has splits 0 to {self.num_splits - 1}; there is no split {index}."
            )
        train, test = self.splits[index]
        return Split(self.X[train], self.y[train], self.X[test], self.y[test])


def load(name: str, source: Source | None = None) -> Dataset:
    """One of the data sets in :func:`deepwishart.datasets.names`, downloaded if it is not here yet,
    from the source or else :meth:`deepwishart.datasets.Source.find`.

    Raises:
        DataFileError: a file is missing or altered, or cannot be downloaded.

    >>> load("yatch")
    Traceback (most recent call last):
    ...
    ValueError: ...Did you mean 'yacht'?...
    """
    folder, source = entry(name).path(""), source or Source.find()
    table = _numbers(source, folder + "data.txt")
    features, target = (
        _indices(source, f"{folder}index_{kind}.txt", table.shape[1])
        for kind in ("features", "target")
    )
    (num_splits,) = _indices(source, folder + "n_splits.txt", np.iinfo(np.int64).max)
    train, test = (
        [_indices(source, f"{folder}index_{kind}_{k}.txt", len(table)) for k in range(num_splits)]
        for kind in ("train", "test")
    )
    splits = tuple(zip(train, test, strict=True))
    return Dataset(name, table[:, features], table[:, target[0]], splits)


def _numbers(source: Source, path: str) -> np.ndarray:
    file = source.get(path)
    try:
        return np.loadtxt(file, dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise DataFileError(f"The data file {file} is not a table: {error}.") from error


def _indices(source: Source, path: str, limit: int) -> np.ndarray:
    numbers = _numbers(source, path).ravel()
    indices = numbers.astype(np.int64)
    if not ((indices == numbers) & (indices >= 0) & (indices < limit)).all():
        file = source.folder / path
        raise DataFileError(f"The data file {file} must hold whole numbers from 0 to {limit - 1}.")
    return indices
