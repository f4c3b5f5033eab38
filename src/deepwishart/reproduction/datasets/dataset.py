"""A data set with its published splits, as NumPy arrays."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepwishart.reproduction.datasets.catalogue import Entry, entry
from deepwishart.reproduction.datasets.source import DataFileError, Source

__all__ = ["Dataset", "Split", "Standardised", "load", "standardise"]


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


class Standardised(NamedTuple):
    """A split in standardised units; :math:`y = y_\\text{mean} + y_\\text{std}\\, z` goes back."""

    split: Split
    y_mean: float
    y_std: float


def load(name: str, source: Source | None = None) -> Dataset:
    """One of the data sets in :func:`deepwishart.datasets.names`, downloaded if it is not here yet.

    Args:
        name: name of the data set.
        source: where its files are; what the environment asks for if ``None``, see
            :meth:`deepwishart.datasets.Source.find`.

    Raises:
        DataFileError: a file is missing, truncated or altered, or cannot be downloaded.

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


def standardise(split: Split) -> Standardised:
    r"""Centre and scale by mean and standard deviation of the training rows,
    :math:`z = (x - \bar x_\text{train}) / s_\text{train}`, column by column.

    A column that is constant in training is only centred.

    >>> split = Split(
    ...     np.array([[0.0, 5.0], [2.0, 5.0]]),
    ...     np.array([1.0, 3.0]),
    ...     np.ones((1, 2)),
    ...     np.array([4.0]),
    ... )
    >>> standardise(split).split.X_train.tolist(), standardise(split).y_std
    ([[-1.0, 0.0], [1.0, 0.0]], 1.0)
    """
    X_mean, X_scale = _moments(split.X_train)
    y_mean, y_scale = _moments(split.y_train)
    scaled = Split(
        (split.X_train - X_mean) / X_scale,
        (split.y_train - y_mean) / y_scale,
        (split.X_test - X_mean) / X_scale,
        (split.y_test - y_mean) / y_scale,
    )
    return Standardised(scaled, float(y_mean), float(y_scale))


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # The standard deviation of a constant column is a rounding error, not always zero.
    constant = np.ptp(values, 0) <= 8 * np.finfo(np.float64).eps * np.abs(values).max(0)
    return values.mean(0), np.where(constant, 1.0, values.std(0))


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
