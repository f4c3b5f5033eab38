"""A small data set in the published layout, for sweeps that take seconds."""

from pathlib import Path

import numpy as np
import pytest

from deepwishart.reproduction import datasets
from stress.data import small_table, write_data

NUM_SPLITS = 4
OUT_OF_REACH = 3  # the split with a test target whose density is zero in floating point


@pytest.fixture
def data_folder(tmp_path: Path) -> Path:
    """A folder that calls its data yacht: 40 rows, 2 features, 4 splits."""
    generator = np.random.default_rng(0)
    table = small_table(generator)
    table[39, -1] = 1e200
    orders = [generator.permutation(39).tolist() for _ in range(NUM_SPLITS)]
    splits = [(order[5:], order[:5]) for order in orders]
    splits[OUT_OF_REACH][1].append(39)
    folder = tmp_path / "data"
    write_data(folder, table, splits)
    return folder


@pytest.fixture
def dataset(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> datasets.Dataset:
    monkeypatch.setenv("DEEPWISHART_DATA", str(data_folder))
    return datasets.load("yacht")
