"""A data set with its published splits, as NumPy arrays."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepwishart.reproduction.datasets.catalogue import Entry, entry
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
        name: its name.
        X: inputs ``(N, num_features)``, float64, in original units.
        y: targets ``(N,)``, float64, in original units.
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
    """One of the data sets in :func:`deepwishart.datasets.names`, downloaded if it is not here yet.

    Args:
        name: name of the data set.
        source: where its files are; what the environment asks for if ``None``, see
            :meth:`deepwishart.datasets.Source.find`.

    Raises:
        DataFileError: a file is missing or altered, or cannot be downloaded.

    >>> load("yatch")
    Traceback (most recent call last):
    ...
    ValueError: ...Did you mean 'yacht'?...
    """
    chosen, source = entry(name), source or Source.find()
    if source.base_url is not None:
        source.fetch(source.paths(chosen.path("")))
    table = _numbers(source, chosen, "data.txt")
    features = _indices(source, chosen, "index_features.txt", table.shape[1])
    target = _indices(source, chosen, "index_target.txt", table.shape[1])
    (num_splits,) = _indices(source, chosen, "n_splits.txt", np.iinfo(np.int64).max)
    splits = tuple(
        (
            _indices(source, chosen, f"index_train_{k}.txt", len(table)),
            _indices(source, chosen, f"index_test_{k}.txt", len(table)),
        )
        for k in range(num_splits)
    )
    return Dataset(name, table[:, features], table[:, target[0]], splits)


def _numbers(source: Source, chosen: Entry, file: str) -> np.ndarray:
    path = chosen.path(file)
    content = source.read(path)
    if not content.strip():
        raise DataFileError(f"The data file {source.folder / path} is empty.")
    try:
        return np.loadtxt(io.BytesIO(content), dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise DataFileError(
            f"The data file {source.folder / path} is not a table: {error}."
        ) from error


def _indices(source: Source, chosen: Entry, file: str, limit: int) -> np.ndarray:
    numbers = _numbers(source, chosen, file).ravel()
    indices = numbers.astype(np.int64)
    inside = (indices == numbers) & (indices >= 0) & (indices < limit)
    if not inside.all():
        raise DataFileError(
            f"The data file {source.folder / chosen.path(file)} must hold whole numbers from 0 to "
            f"{limit - 1}."
        )
    return indices
