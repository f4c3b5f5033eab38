"""Saved models: identical after loading, refused when damaged, never half written."""

import hashlib
import json
import os
import pickle
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
    settings = {"n_inducing": 8, "n_samples": 2, "max_iter": 4, "n_predict_samples": 8}
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


def reseal(path):
    """Make the checksums right again after a change."""
    document = json.loads((path / "config.json").read_text())
    for name in document["files"]:
        document["files"][name] = hashlib.sha256((path / name).read_bytes()).hexdigest()
    document["sha256"] = persistence._fingerprint(document)
    (path / "config.json").write_text(json.dumps(document))


def edit(path, change):
    document = json.loads((path / "config.json").read_text())
    change(document)
    (path / "config.json").write_text(json.dumps(document))


# ---- the same after loading ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("process", PROCESSES)
def test_predictions_are_identical(process, depth, dtype, data, tmp_path):
    X, y = data
    regressor = small(process=process, depth=depth, dtype=dtype).fit(X, y)
    regressor.save(tmp_path / "model")
    loaded = DeepKernelRegressor.load(tmp_path / "model")
    for ours, theirs in zip(
        regressor.predict(X, return_std=True), loaded.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(regressor.log_prob(X, y), loaded.log_prob(X, y))
    np.testing.assert_array_equal(regressor.sample_y(X, 3), loaded.sample_y(X, 3))
    np.testing.assert_array_equal(
        regressor.predict_quantiles(X, [0.1, 0.9]), loaded.predict_quantiles(X, [0.1, 0.9])
    )


@pytest.mark.parametrize("kernel", dw.kernels.names())
def test_every_kernel_of_the_registry(kernel, data, tmp_path):
    X, y = data
    regressor = small(kernel=kernel, max_iter=1).fit(X, y)
    regressor.save(tmp_path / "model")
    loaded = DeepKernelRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(regressor.predict(X), loaded.predict(X))


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("width", [2, 12])
def test_other_shapes(columns, width, data, tmp_path):
    X, y = data
    Y = np.column_stack([y * 1e30, X[:, 1] * 1e-30])[:, :columns]
    regressor = small(width=width, n_inducing=100, jitter=1e-4).fit(X, Y)
    regressor.save(tmp_path / "model")
    loaded = DeepKernelRegressor.load(tmp_path / "model")
    assert loaded.n_inducing_ == 30 and loaded.predict(X).shape == (30, columns)
    np.testing.assert_array_equal(regressor.predict(X), loaded.predict(X))


def test_everything_else_is_there(data, tmp_path):
    import pandas as pd

    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    protocol = Protocol(3, 0.02, 0.01, "step", kl_anneal=2, num_samples=2)
    regressor = small(
        max_iter=None,
        learning_rate=np.float64(0.02),
        protocol=protocol,
        depth=np.int64(2),
        device=torch.device("cpu"),
        checkpoint_dir=tmp_path / "checkpoints",
        warm_start=True,
    ).fit(frame, y)
    regressor.save(tmp_path / "model")
    loaded = DeepKernelRegressor.load(tmp_path / "model")
    expected = regressor.get_params() | {
        "device": "cpu",
        "checkpoint_dir": str(tmp_path / "checkpoints"),
    }
    assert loaded.get_params() == expected
    assert list(loaded.feature_names_in_) == ["a", "b", "c"]
    assert loaded.n_features_in_ == 3 and loaded.n_outputs_ == 1
    assert loaded.elbo_ == regressor.elbo_ and loaded.n_iter_ == 3
    assert loaded.history_ == regressor.history_
    with pytest.raises(ValueError, match="same order"):
        loaded.predict(frame[["b", "a", "c"]])
    np.testing.assert_array_equal(
        loaded.fit(frame, y).predict(frame), regressor.fit(frame, y).predict(frame)
    )


def test_config_can_be_read_by_people(saved):
    document = json.loads((saved / "config.json").read_text())
    assert document["format_version"] == 1
    assert document["versions"]["deepwishart"] == dw.__version__
    assert {"python", "torch", "numpy", "scikit-learn"} <= document["versions"].keys()
    assert document["content"]["parameters"]["process"] == "dwp"
    assert document["content"]["training"]["steps"] == 4
    digest = hashlib.sha256((saved / "model.safetensors").read_bytes()).hexdigest()
    assert document["files"]["model.safetensors"] == digest
    assert sorted(os.listdir(saved)) == ["config.json", "history.json", "model.safetensors"]


def test_a_random_state_object_is_replaced_by_what_it_decided(data, tmp_path):
    X, y = data
    regressor = small(random_state=np.random.RandomState(3)).fit(X, y)
    regressor.save(tmp_path / "model")
    loaded = DeepKernelRegressor.load(tmp_path / "model")
    assert loaded.random_state is None and loaded.seed_ == regressor.seed_
    np.testing.assert_array_equal(regressor.predict(X), loaded.predict(X))


def test_loading_does_not_touch_global_randomness(saved):
    torch.manual_seed(0)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    DeepKernelRegressor.load(saved)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()


# ---- what cannot be saved -----------------------------------------------------------------------


def test_unfitted(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        small().save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_a_kernel_object_cannot_be_saved(data, tmp_path):
    regressor = small(kernel=dw.kernels.Matern32()).fit(*data)
    with pytest.raises(ModelFileError, match=r"kernel=Matern32\(\.\.\.\).*Use a kernel's name"):
        regressor.save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_things_json_cannot_hold(tmp_path):
    with pytest.raises(ModelFileError, match="cannot be saved as plain data"):
        write_model(tmp_path / "model", {}, {"object": object()})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_other_peoples_files_are_safe(kind, fitted, tmp_path):
    target = tmp_path / "precious"
    if kind == "file":
        target.write_text("data")
    else:
        target.mkdir()
        (target / "thesis.tex").write_text("data")
    with pytest.raises(ModelFileError, match="choose another path"):
        fitted.save(target)
    inside = target if kind == "file" else target / "thesis.tex"
    assert inside.read_text() == "data"


# ---- all or nothing -----------------------------------------------------------------------------


def test_saving_again_replaces_the_model(saved, data):
    X, y = data
    other = small(random_state=7).fit(X, y)
    other.save(saved)
    np.testing.assert_array_equal(DeepKernelRegressor.load(saved).predict(X), other.predict(X))
    assert os.listdir(saved.parent) == ["model"]


def test_saving_makes_parent_directories_and_fills_an_empty_one(fitted, tmp_path):
    fitted.save(tmp_path / "a" / "b")
    (tmp_path / "empty").mkdir()
    fitted.save(tmp_path / "empty")
    assert DeepKernelRegressor.load(str(tmp_path / "empty")).n_iter_ == 4


@pytest.mark.parametrize("call", ["fsync", "rename"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_failure_midway_keeps_the_old_model(call, count, saved, data, monkeypatch):
    """The operating system gives up at the first, second or third call."""
    X, y = data
    before = DeepKernelRegressor.load(saved).predict(X)
    other = small(random_state=7).fit(X, y)
    real, calls = getattr(os, call), []

    def fail_once(*arguments):
        calls.append(arguments)
        if len(calls) == count + 1:
            raise OSError("no space left on device")
        return real(*arguments)

    monkeypatch.setattr(os, call, fail_once)
    expected = before
    if call == "rename" and count == 2:  # there are two renames only
        other.save(saved)
        expected = other.predict(X)
    else:
        with pytest.raises(OSError, match="no space left"):
            other.save(saved)
    monkeypatch.undo()
    np.testing.assert_array_equal(DeepKernelRegressor.load(saved).predict(X), expected)
    assert os.listdir(saved.parent) == ["model"]


def test_a_crash_between_the_renames_loses_nothing(saved, fitted, data, monkeypatch):
    """The process dies when the old model is set aside and the new one not yet in place."""
    X, _ = data
    before = fitted.predict(X)
    aside = saved.with_name(".model.previous")
    saved.rename(aside)
    np.testing.assert_array_equal(DeepKernelRegressor.load(saved).predict(X), before)
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


@pytest.mark.parametrize("name", ["model.safetensors", "history.json", "config.json"])
def test_a_file_is_missing(name, saved):
    (saved / name).unlink()
    with pytest.raises(ModelFileError, match=f"{name}"):
        DeepKernelRegressor.load(saved)


@pytest.mark.parametrize("name", ["model.safetensors", "history.json", "config.json"])
@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.9, -1])
def test_truncated(name, fraction, saved):
    content = (saved / name).read_bytes()
    kept = int(fraction * len(content)) if fraction >= 0 else -1
    (saved / name).write_bytes(content[:kept])
    with pytest.raises(ModelFileError, match=f"{name} is (truncated, )?damaged"):
        DeepKernelRegressor.load(saved)


@pytest.mark.parametrize("name", ["model.safetensors", "history.json"])
def test_every_flipped_byte_is_noticed(name, saved):
    content = bytearray((saved / name).read_bytes())
    for position in range(0, len(content), max(1, len(content) // 50)):
        content[position] ^= 1
        (saved / name).write_bytes(content)
        with pytest.raises(ModelFileError, match="checksum"):
            read_model(saved)
        content[position] ^= 1


def test_a_changed_number_in_the_config_is_noticed(saved):
    def change(document):
        document["content"]["target_scaling"]["magnitude"][0] += 1e-9

    edit(saved, change)
    with pytest.raises(ModelFileError, match=r"config\.json was changed or damaged"):
        DeepKernelRegressor.load(saved)


def test_a_newer_format(saved):
    def change(document):
        document["format_version"] = 2
        document["versions"]["deepwishart"] = "9.0"

    edit(saved, change)
    with pytest.raises(
        ModelFileError, match=r"format version 2, written by deepwishart 9\.0.*Upgr"
    ):
        DeepKernelRegressor.load(saved)


def test_another_programs_config(saved):
    (saved / "config.json").write_text('{"model_type": "other"}')
    with pytest.raises(ModelFileError, match="was not written by deepwishart"):
        DeepKernelRegressor.load(saved)


class Malicious:
    def __reduce__(self):
        return (pytest.fail, ("code from a model file was executed",))


def test_a_pickle_is_never_executed(saved):
    """Even with the right checksum."""
    (saved / "model.safetensors").write_bytes(pickle.dumps(Malicious()))
    reseal(saved)
    with pytest.raises(ModelFileError, match="damaged or changed"):
        DeepKernelRegressor.load(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content["structure"].update(depth=3), "depth is 3, but"),
        (lambda content: content.update(num_inducing=4), "should have the sizes"),
        (lambda content: content["structure"].update(process="xyz"), "Unknown process 'xyz'"),
        (lambda content: content["parameters"].update(surprise=1), "surprise"),
        (
            lambda content: content["parameters"].update(depth=-1),
            "depth must be 'auto' or an integer",
        ),
        (lambda content: content.pop("seed"), "seed"),
    ],
)
def test_a_config_that_does_not_fit_its_tensors(change, message, saved):
    edit(saved, lambda document: change(document["content"]))
    reseal(saved)
    with pytest.raises(ModelFileError, match=message):
        DeepKernelRegressor.load(saved)


def test_a_device_that_is_not_here(saved, data):
    edit(saved, lambda document: document["content"]["parameters"].update(device="cuda:77"))
    reseal(saved)
    with pytest.raises(ModelFileError, match="device must be"):
        DeepKernelRegressor.load(saved)
    loaded = DeepKernelRegressor.load(saved, device="cpu")
    assert loaded.device == "cpu" and loaded.predict(data[0]).shape == (30,)


def test_a_circle_of_links(tmp_path):
    (tmp_path / "model").symlink_to(tmp_path / "model")
    with pytest.raises(ModelFileError, match="There is no saved model"):
        DeepKernelRegressor.load(tmp_path / "model")


def test_sizes_are_judged_before_values_are_read(saved):
    """A file of two gigabytes, nearly all of it a hole, whose checksums were not made to fit."""
    file = saved / "model.safetensors"
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    end = max(entry["data_offsets"][1] for entry in header.values() if "shape" in entry)
    header["inducing_inputs_too"] = {
        "dtype": "F64",
        "shape": [2**28],
        "data_offsets": [end, end + 2**31],
    }
    header["inducing_inputs"]["shape"] = header["inducing_inputs"]["shape"][::-1]
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    os.truncate(file, 8 + len(text) + end + 2**31)
    with pytest.raises(ModelFileError, match="inducing points should have the sizes"):
        DeepKernelRegressor.load(saved)
