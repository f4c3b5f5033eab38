"""Data sets are read as their index files say."""

import hashlib

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


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("data.txt", b"1 2\n3 four\n", "is not a table"),
        ("index_target.txt", b"4\n", "whole numbers from 0 to 3"),
        ("index_test_0.txt", b"0.5\n", "whole numbers from 0 to 5"),
    ],
)
def test_files_that_match_their_own_registry_but_make_no_sense(
    folder, registry, file, content, words
):
    path = f"UCI_Datasets/yacht/data/{file}"
    (folder / path).write_bytes(content)
    own = {**registry, path: hashlib.sha256(content).hexdigest()}
    with pytest.raises(datasets.DataFileError, match=f"{file}.* {words}"):
        datasets.load("yacht", datasets.Source(folder, own))
