"""Data sets are read as their index files say."""

import numpy as np
import pytest

from deepwishart.reproduction import datasets


@pytest.fixture
def yacht(folder, monkeypatch) -> datasets.Dataset:
    monkeypatch.setenv("DEEPWISHART_DATA", str(folder))
    return datasets.load("yacht")


def test_columns_and_rows_are_those_of_the_index_files_in_their_order(yacht):
    table = np.arange(24.0).reshape(6, 4) + 0.25
    np.testing.assert_array_equal(yacht.X, table[:, [3, 0, 1]])
    np.testing.assert_array_equal(yacht.y, table[:, 2])
    assert yacht.X.dtype == yacht.y.dtype == np.float64 and yacht.num_splits == 2
    split, train, test = yacht.split(0), [0, 5, 2, 3], [4, 1]
    for found, expected in zip(
        split, (yacht.X[train], yacht.y[train], yacht.X[test], yacht.y[test]), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("index", [-1, 2])
def test_a_split_that_does_not_exist(yacht, index):
    with pytest.raises(ValueError, match=f"yacht has splits 0 to 1; there is no split {index}"):
        yacht.split(index)
