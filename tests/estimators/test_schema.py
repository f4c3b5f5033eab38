"""Model files from strangers: refused with one kind of error, before anything is built."""

import copy
import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

from deepwishart import persistence
from deepwishart.cli.directory import ModelDirectory
from deepwishart.estimators import DeepKernelRegressor, record
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.persistence import ModelFileError

OLD = Path(__file__).resolve().parents[1] / "data" / "model-0.1"
TABLE = pl.read_csv(OLD / "table.csv")


@pytest.fixture
def model(tmp_path):
    """A model to damage."""
    return Path(shutil.copytree(OLD / "dwp", tmp_path / "model"))


def reseal(folder, document=None):
    """Make the checksums right again after a change."""
    document = document or json.loads((folder / "config.json").read_text())
    for name in document["files"]:
        document["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    document["sha256"] = persistence._fingerprint(document)
    (folder / "config.json").write_text(json.dumps(document))


# ---- models of version 0.1 ----------------------------------------------------------------------


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
def test_models_of_version_0_1_predict_what_they_did(process):
    """Up to the Monte Carlo error of 100 samples: another version may draw others."""
    saved = ModelDirectory(OLD / process).load()
    assert saved.targets == ["y"] and saved.fit["version"] == "0.1.0"
    mean, std = saved.regressor.predict(saved.encoder.encode(TABLE), return_std=True)
    expected = pl.read_csv(OLD / process / "predictions.csv")
    assert (np.abs(mean - expected["mean"].to_numpy()) < 0.3 * std).all()
    np.testing.assert_allclose(std, expected["std"], rtol=0.25)


def test_names_of_todays_tensors_are_left_alone(model):
    tensors = load_file(model / "regressor" / "model.safetensors")
    for process in ("dwp", "dgp", "dsvi", "diwp"):
        renamed = record.current_names(tensors, process)
        assert record.current_names(renamed, process).keys() == renamed.keys()


# ---- damage -------------------------------------------------------------------------------------

MISSING = object()
ODD = [
    MISSING,
    None,
    True,
    -1,
    0,
    3.5,
    1e300,
    2**70,
    10**400,
    "",
    "x",
    [],
    [1],
    [None],
    {},
    {"a": 1},
]


def paths(value, path=()):
    """The way to every entry of a nested document."""
    yield path
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(child, (*path, key))


def replaced(document, path, value):
    changed = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    if value is MISSING:
        del inner[path[-1]]
    return changed


@pytest.mark.parametrize("name", ["config.json", "history.json"])
def test_an_odd_value_anywhere_is_accepted_or_refused_as_a_model_file(name, model):
    """Every entry of the file takes on every odd value, with the right checksums."""
    folder = model / "regressor"
    document = json.loads((folder / "config.json").read_text())
    whole = document["content"] if name == "config.json" else None
    whole = whole or json.loads((folder / name).read_text())
    tensors, config, history = persistence.read_model(folder)
    inputs = ModelDirectory(model).load().encoder.encode(TABLE).head(2)
    refused = 0
    for path in paths(whole):
        if not path or (name == "history.json" and len(path) > 1 and path[1] > 0):
            continue
        for value in ODD:
            changed = replaced(whole, path, value)
            parts = (changed, history) if name == "config.json" else (config, changed)
            try:
                regressor = record.from_record(DeepKernelRegressor, dict(tensors), *parts)
                regressor.set_params(n_predict_samples=2).predict_distribution(inputs)
            except ModelFileError:
                refused += 1
            except (
                ValueError,
                UserWarning,
            ) as error:  # names of columns, or a row far from the training data
                assert re.search("feature names|standard deviations", str(error))
            except CholeskyError:
                assert path[-1] == "jitter"
    assert refused > 90


@pytest.mark.parametrize("where", ["encoder", "targets", "fit"])
def test_an_odd_value_in_the_table_is_refused_as_a_model_file(where, model):
    folder = model / "regressor"
    document = json.loads((folder / "config.json").read_text())
    table = document["content"]["table"]
    refused = 0
    for path in paths(table[where], (where,)):
        if "settings" in path[:-1]:
            continue
        for value in ODD[1::3]:
            document["content"]["table"] = replaced(table, path, value)
            reseal(folder, document)
            try:
                ModelDirectory(model).load()
            except ModelFileError:
                refused += 1
    assert refused > 4


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none(value, model):
    folder = model / "regressor"
    tensors = load_file(folder / "model.safetensors")
    tensors["layers.1.loc"][2, 1] = value
    save_file(tensors, folder / "model.safetensors")
    reseal(folder)
    with pytest.raises(ModelFileError, match=r"NaN or infinite numbers in 'layers\.1\.loc'"):
        DeepKernelRegressor.load(folder)


def test_tensors_of_another_type(model):
    folder = model / "regressor"
    tensors = load_file(folder / "model.safetensors")
    save_file({k: v.to(torch.int32) for k, v in tensors.items()}, folder / "model.safetensors")
    reseal(folder)
    with pytest.raises(ModelFileError, match="another type than float64"):
        DeepKernelRegressor.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"num_inducing": 20_000},
        {"num_features": 20_000},
        {"num_outputs": 20_000},
        {"structure": {"depth": 20_000}},
        {"structure": {"width": 2**30}},
    ],
)
def test_a_small_file_cannot_ask_for_a_large_model(change, model, monkeypatch):
    """Sizes are compared with the tensors before a model is built."""
    monkeypatch.setattr(record, "build_model", lambda *a, **k: pytest.fail("it was built"))
    tensors, config, history = persistence.read_model(model / "regressor")
    for name, value in change.items():
        config[name] = {**config[name], **value} if isinstance(value, dict) else value
    with pytest.raises(ModelFileError):
        record.from_record(DeepKernelRegressor, tensors, config, history)


@pytest.mark.parametrize("depth", [500, 200_000])
@pytest.mark.parametrize("name", ["config.json", "history.json"])
def test_deep_nesting(name, depth, model):
    folder = model / "regressor"
    (folder / name).write_text("[" * depth + "]" * depth)
    if name == "history.json":
        reseal(folder)
    with pytest.raises(ModelFileError, match=r"nested too deeply|no JSON object"):
        DeepKernelRegressor.load(folder)


def test_nesting_inside_the_config(model):
    folder = model / "regressor"
    text = (folder / "config.json").read_text()
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    (folder / "config.json").write_text(
        text.replace('"content": {', f'"content": {{"z": {deep},', 1)
    )
    with pytest.raises(ModelFileError, match="nested too deeply"):
        DeepKernelRegressor.load(folder)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "9" * 5000])
def test_numbers_that_json_or_python_cannot_hold(number, model):
    folder = model / "regressor"
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"depth": 3', f'"depth": {number}', 1))
    with pytest.raises(ModelFileError, match="damaged"):
        DeepKernelRegressor.load(folder)


def test_a_limit_to_the_size_of_json(model, monkeypatch):
    monkeypatch.setattr(persistence, "_LARGEST_JSON", 1000)
    with pytest.raises(ModelFileError, match="which no model needs"):
        DeepKernelRegressor.load(model / "regressor")


@pytest.mark.parametrize(
    "change",
    [
        {"files": []},
        {"files": {}},
        {"content": []},
        {"format_version": "1"},
        {"format_version": True},
        {"format_version": 0, "versions": []},
        {"format": ["deepwishart-model"]},
    ],
)
def test_odd_documents(change, model):
    folder = model / "regressor"
    document = {**json.loads((folder / "config.json").read_text()), **change}
    document["sha256"] = persistence._fingerprint(document)
    (folder / "config.json").write_text(json.dumps(document))
    with pytest.raises(ModelFileError):
        DeepKernelRegressor.load(folder)


@pytest.mark.parametrize("value", [[1], -1, 2**32, "0", 0.5])
def test_a_seed_that_is_none(value, model):
    tensors, config, history = persistence.read_model(model / "regressor")
    config["parameters"]["random_state"] = value
    with pytest.raises(ModelFileError, match="random_state is no seed"):
        record.from_record(DeepKernelRegressor, tensors, config, history)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", [1.0]),
        ("left_out", [2]),
        ("date", 3),
        ("run", {}),
        ("cv", {"rows": 3, "targets": {"y": {"model": {}}}}),
    ],
)
def test_odd_facts_about_the_fit(name, value, model):
    folder = model / "regressor"
    document = json.loads((folder / "config.json").read_text())
    document["content"]["table"]["fit"][name] = value
    reseal(folder, document)
    with pytest.raises(ModelFileError, match=r"its (number of \w+|date|run) is|its table"):
        ModelDirectory(model).load()
