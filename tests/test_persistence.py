"""Saved models: identical after loading, refused when damaged, never half written."""

import hashlib
import json
import os
import shutil

import numpy as np
import pytest
import torch

import deepwishart as dw
from deepwishart import persistence
from deepwishart.estimators import DeepKernelRegressor
from deepwishart.persistence import ModelFileError, read_model, write_model
from deepwishart.spec import PROCESSES
from deepwishart.training import Protocol


def small(**parameters):
    settings = {"depth": 2, "n_inducing": 8, "n_samples": 2, "max_iter": 4, "n_predict_samples": 8}
    return DeepKernelRegressor(**{**settings, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def data():
    random = np.random.RandomState(0)
    X = random.normal(size=(30, 3))
    return X, 20 + X[:, 0] + 0.1 * random.normal(size=30)


@pytest.fixture(scope="module")
def fitted(data):
    return small().fit(*data)


@pytest.fixture
def saved(fitted, tmp_path):
    """A directory with a good model."""
    fitted.save(tmp_path / "model")
    return tmp_path / "model"


def edit(path, change):
    """Change what the config says, and make the checksums right again."""
    document = json.loads((path / "config.json").read_text())
    change(document["content"])
    for name in document["files"]:
        document["files"][name] = hashlib.sha256((path / name).read_bytes()).hexdigest()
    document["sha256"] = persistence._fingerprint(document)
    (path / "config.json").write_text(json.dumps(document))


# ---- the same after loading ---------------------------------------------------------------------


def check_identical(regressor, X, folder):
    """Saved and loaded, it gives the same answers to the last bit."""
    regressor.save(folder)
    loaded = DeepKernelRegressor.load(folder)
    for ask in (
        lambda each: each.predict(X, return_std=True),
        lambda each: each.sample_y(X, 3),
        lambda each: each.predict_quantiles(X, [0.1, 0.9]),
    ):
        np.testing.assert_array_equal(ask(regressor), ask(loaded))
    return loaded


@pytest.mark.parametrize(
    "parameters",
    [
        *(
            {"process": process, "depth": depth, "dtype": dtype}
            for process in PROCESSES
            for depth, dtype in ((1, "float32"), (3, "float64"))
        ),
        {"kernel": "arc_cosine1", "width": 2, "random_state": np.random.RandomState(3)},
        {"width": 12, "n_inducing": 100, "jitter": 1e-4, "ard": False, "posterior": "anchored"},
        {"protocol": "paper"},
    ],
    ids=lambda each: " ".join(each),
)
def test_predictions_are_identical(parameters, data, tmp_path):
    """Of two targets, whose units are far apart."""
    X, y = data
    y = np.column_stack([y * 1e30, X[:, 1] * 1e-30])
    regressor = small(**parameters).fit(X, y)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    loaded = check_identical(regressor, X, tmp_path / "model")
    np.testing.assert_array_equal(regressor.log_prob(X, y), loaded.log_prob(X, y))
    assert loaded.spec_ == regressor.spec_ and loaded.seed_ == regressor.seed_
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()


def test_everything_else_is_there(data, tmp_path):
    import pandas as pd

    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    regressor = small(
        max_iter=None,
        learning_rate=np.float64(0.02),
        protocol=Protocol(3, 0.02, 0.01, "step", kl_anneal=2, num_samples=2),
        depth=np.int64(2),
        device=torch.device("cpu"),
        checkpoint_dir=tmp_path / "checkpoints",
        warm_start=True,
    ).fit(frame, y)
    regressor.save(tmp_path / "model")
    loaded = DeepKernelRegressor.load(tmp_path / "model")
    plain = {"device": "cpu", "checkpoint_dir": str(tmp_path / "checkpoints")}
    assert loaded.get_params() == regressor.get_params() | plain
    assert list(loaded.feature_names_in_) == ["a", "b", "c"]
    assert loaded.n_features_in_ == 3 and loaded.n_outputs_ == 1
    assert loaded.elbo_ == regressor.elbo_ and loaded.n_iter_ == 3
    assert loaded.history_ == regressor.history_
    with pytest.raises(ValueError, match="same order"):
        loaded.predict(frame[["b", "a", "c"]])
    np.testing.assert_array_equal(
        loaded.fit(frame, y).predict(frame), regressor.fit(frame, y).predict(frame)
    )


# ---- what cannot be saved -----------------------------------------------------------------------


def test_what_is_no_plain_data_cannot_be_saved(data, tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        small().save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"kernel=Matern32\(\.\.\.\), an obj.*pickle"):
        small(kernel=dw.kernels.Matern32()).fit(*data).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="cannot be saved as plain data"):
        write_model(tmp_path / "model", {}, {"object": object()})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_other_peoples_files_are_safe(kind, fitted, tmp_path):
    target = tmp_path / "precious"
    inside = target if kind == "file" else target / "thesis.tex"
    inside.parent.mkdir(exist_ok=True)
    inside.write_text("data")
    with pytest.raises(ModelFileError, match="choose another path"):
        fitted.save(target)
    assert inside.read_text() == "data"


# ---- all or nothing -----------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["fsync", "rename"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_failure_midway_keeps_the_old_model(call, count, saved, data, monkeypatch):
    """The operating system gives up at the first, second or third call."""
    X, y = data
    expected = DeepKernelRegressor.load(saved).predict(X)
    other = small(random_state=7).fit(X, y)
    real, calls = getattr(os, call), []

    def fail_once(*arguments):
        calls.append(arguments)
        if len(calls) == count + 1:
            raise OSError("no space left on device")
        return real(*arguments)

    monkeypatch.setattr(os, call, fail_once)
    if call == "rename" and count == 2:  # there are two renames only: the new model is in place
        other.save(saved)
        expected = other.predict(X)
    else:
        with pytest.raises(OSError, match="no space left"):
            other.save(saved)
    monkeypatch.undo()
    np.testing.assert_array_equal(DeepKernelRegressor.load(saved).predict(X), expected)
    assert os.listdir(saved.parent) == ["model"]


def test_a_crash_between_the_renames_loses_nothing(saved, fitted, data):
    """The process dies when the old model is set aside and the new one not yet in place."""
    before = fitted.predict(data[0])
    aside = saved.with_name(".model.previous")
    saved.rename(aside)
    np.testing.assert_array_equal(DeepKernelRegressor.load(saved).predict(data[0]), before)
    fitted.save(saved)
    assert os.listdir(saved.parent) == ["model"]
    shutil.copytree(saved, aside)  # or when the new one is in place and the old not yet removed
    fitted.save(saved)
    assert os.listdir(saved.parent) == ["model"]


# ---- refused ------------------------------------------------------------------------------------


def test_nothing_there(tmp_path):
    with pytest.raises(ModelFileError, match=r"There is no saved model at .*does not exist"):
        DeepKernelRegressor.load(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match=r"it has no config\.json"):
        DeepKernelRegressor.load(tmp_path)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(ModelFileError, match="There is no saved model"):
        DeepKernelRegressor.load(tmp_path / "circle")


@pytest.mark.parametrize("name", ["model.safetensors", "history.json", "config.json"])
def test_missing_truncated_or_changed(name, saved):
    content = (saved / name).read_bytes()
    (saved / name).unlink()
    with pytest.raises(ModelFileError, match=rf"{name} is missing|no {name}"):
        DeepKernelRegressor.load(saved)
    for length in (0, len(content) // 3, len(content) - 1):
        (saved / name).write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=rf"{name} is (truncated, )?damaged"):
            DeepKernelRegressor.load(saved)
    for position in range(0, len(content), max(1, len(content) // 50)):
        changed = bytearray(content)
        changed[position] ^= 1
        (saved / name).write_bytes(changed)
        with pytest.raises(ModelFileError):
            read_model(saved)


def test_a_device_that_is_not_here(saved, data):
    edit(saved, lambda content: content["parameters"].update(device="cuda:77"))
    with pytest.raises(ModelFileError, match="device must be"):
        DeepKernelRegressor.load(saved)
    loaded = DeepKernelRegressor.load(saved, device="cpu")
    assert loaded.device == "cpu" and loaded.predict(data[0]).shape == (30,)


def test_sizes_are_judged_before_values_are_read(saved):
    """A file of two gigabytes, nearly all of it a hole, whose checksums were not made to fit."""
    file = saved / "model.safetensors"
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    end = max(entry["data_offsets"][1] for entry in header.values() if "shape" in entry)
    entry = {"dtype": "F64", "shape": [2**28], "data_offsets": [end, end + 2**31]}
    text = json.dumps(header | {"inducing_inputs_too": entry}).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    os.truncate(file, 8 + len(text) + end + 2**31)
    with pytest.raises(ModelFileError, match="inducing_inputs_too should have the sizes of none"):
        DeepKernelRegressor.load(saved)


def test_names_cannot_steer_a_terminal(tmp_path):
    folder = tmp_path / "a\x1b[2Jb"
    folder.mkdir()
    for content in (None, "{", "{}"):
        if content is not None:
            (folder / "config.json").write_text(content)
        with pytest.raises(ModelFileError) as caught:
            DeepKernelRegressor.load(folder)
        assert "\x1b" not in str(caught.value) and r"a\x1b[2Jb" in str(caught.value)


def test_a_model_that_is_replaced_while_it_is_read(saved, data, monkeypatch):
    """Half of the old one and half of the new one do not make a model: the new one is read."""
    other, read = small(random_state=1).fit(*data), persistence._read

    def replaced_meanwhile(*arguments):
        monkeypatch.setattr(persistence, "_read", read)
        content = read(*arguments)
        other.save(saved)
        return content

    monkeypatch.setattr(persistence, "_read", replaced_meanwhile)
    found = DeepKernelRegressor.load(saved)
    np.testing.assert_array_equal(found.predict(data[0]), other.predict(data[0]))
