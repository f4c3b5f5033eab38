"""The published files themselves, where they are at hand."""

import os
from pathlib import Path

import numpy as np
import pytest

from deepwishart.reproduction import datasets

FOLDER = Path(
    os.environ.get("DEEPWISHART_DATA") or Path(__file__).resolve().parents[4] / "shared" / "uci"
)

pytestmark = pytest.mark.skipif(
    not (FOLDER / "UCI_Datasets").is_dir(),
    reason=f"the UCI data are not in {FOLDER}; name their folder in DEEPWISHART_DATA",
)


@pytest.fixture(autouse=True)
def _named_folder(monkeypatch):
    monkeypatch.setenv("DEEPWISHART_DATA", str(FOLDER))


@pytest.mark.parametrize("entry", datasets.CATALOGUE.values(), ids=lambda entry: entry.name)
def test_sizes_and_splits(entry):
    dataset = datasets.load(entry.name)
    assert dataset.X.shape == (entry.num_rows, entry.num_features)
    assert dataset.y.shape == (entry.num_rows,)
    assert np.isfinite(dataset.X).all() and np.isfinite(dataset.y).all()
    assert dataset.num_splits == entry.num_splits
    for train, test in dataset.splits:
        assert len(train) == round(0.9 * entry.num_rows)
        everything = np.sort(np.concatenate([train, test]))
        np.testing.assert_array_equal(everything, np.arange(entry.num_rows))
