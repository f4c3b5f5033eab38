"""A small data set in the published layout, for sweeps that take seconds."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from deepwishart.reproduction import datasets

NUM_SPLITS = 4
OUT_OF_REACH = 3  # the split with a test target whose density is zero in floating point


@pytest.fixture
def data_folder(tmp_path: Path) -> Path:
    """A folder that calls its data yacht: 40 rows, 2 features, 4 splits."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-2.0, 2.0, (40, 2))
    y = 10.0 + 3.0 * np.sin(2.0 * X[:, 0]) * X[:, 1] + generator.normal(0.0, 0.1, 40)
    y[39] = 1e200
    contents = {
        "data.txt": "\n".join(" ".join(map(repr, row)) for row in np.c_[X, y].tolist()),
        "index_features.txt": "0\n1",
        "index_target.txt": "2",
        "n_splits.txt": str(NUM_SPLITS),
    }
    for k in range(NUM_SPLITS):
        order = generator.permutation(39)
        test = [*order[:5], 39] if k == OUT_OF_REACH else order[:5]
        contents[f"index_test_{k}.txt"] = "\n".join(map(str, test))
        contents[f"index_train_{k}.txt"] = "\n".join(map(str, order[5:]))
    folder = tmp_path / "data"
    registry = []
    for name, text in contents.items():
        path = f"UCI_Datasets/yacht/data/{name}"
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        registry.append(f"{path} {hashlib.sha256(text.encode()).hexdigest()} {len(text)}")
    (folder / "registry.txt").write_text("\n".join(registry))
    return folder


@pytest.fixture
def dataset(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> datasets.Dataset:
    monkeypatch.setenv("DEEPWISHART_DATA", str(data_folder))
    return datasets.load("yacht")
