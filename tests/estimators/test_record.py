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
from typer.testing import CliRunner

from deepwishart import persistence
from deepwishart.cli import app
from deepwishart.cli.directory import ModelDirectory
from deepwishart.estimators import DeepKernelRegressor, record
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.persistence import ModelFileError, read_model
from deepwishart.spec import ModelSpec

TINY = "--depth 3 --width 2 --inducing 4 --max-iter 5 --output inducing --posterior rows --quiet"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A directory that ``deepwishart fit`` made, with a table of a number and a category."""
    folder = tmp_path_factory.mktemp("whole")
    x = np.linspace(-2, 2, 24)
    colours = ["red", "blue", "red"] * 8
    pl.DataFrame({"x": x, "colour": colours, "y": x**2}).write_csv(folder / "table.csv")
    options = ["--target", "y", "--out", str(folder / "model"), *TINY.split()]
    result = CliRunner().invoke(app, ["fit", str(folder / "table.csv"), *options])
    assert result.exit_code == 0, result.output
    return folder / "model"


@pytest.fixture
def model(whole, tmp_path):
    """A model to damage."""
    return Path(shutil.copytree(whole, tmp_path / "model"))


@pytest.fixture
def parts(whole):
    """Tensors, config and history to change."""
    return copy.deepcopy(read_model(whole))


def reseal(folder, **changes):
    """Make the checksums right again after a change, of other files or of the config."""
    document = json.loads((folder / "config.json").read_text()) | changes
    for name in (name for name in FILES if name in document["files"]):
        document["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    document["sha256"] = persistence._fingerprint(document)
    (folder / "config.json").write_text(json.dumps(document))


FILES = ("model.safetensors", "history.json")


MISSING = object()
ODD = [MISSING, None, True, -1, 0, 3.5, 1e300, 2**70, 10**400]
ODD += ["", "x", [], [1], [None], {}, {"a": 1}]


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


@pytest.mark.parametrize("name", ["config", "history"])
def test_an_odd_value_anywhere_is_accepted_or_refused_as_a_model_file(name, whole, parts):
    """Every entry of the file takes on every odd value."""
    tensors, config, history = parts
    del config["table"]  # which the next test looks at
    document = config if name == "config" else history
    inputs = (
        ModelDirectory(whole)
        .load()
        .encoder.encode(pl.DataFrame({"x": [0.1, 1.0], "colour": ["red", "blue"]}))
    )
    refused = 0
    for path in paths(document):
        if not path or (name == "history" and len(path) > 1 and path[1] > 0):
            continue
        for value in ODD:
            changed = replaced(document, path, value)
            both = (changed, history) if name == "config" else (config, changed)
            try:
                regressor = record.from_record(DeepKernelRegressor, tensors, *both)
                regressor.set_params(n_predict_samples=2).predict_distribution(inputs)
            except ModelFileError:
                refused += 1
            except (ValueError, UserWarning) as error:  # names of columns, or a row far away
                assert re.search("feature names|standard deviations", str(error))
            except CholeskyError:
                assert path[-1] == "jitter"
    assert refused > 90


def test_an_odd_value_in_the_table_is_refused_as_a_model_file(model):
    folder = model / "regressor"
    content = json.loads((folder / "config.json").read_text())["content"]
    refused = 0
    for path in paths(content["table"]):
        if not path or "settings" in path[:-1]:
            continue
        for value in ODD[1::3]:
            reseal(folder, content={**content, "table": replaced(content["table"], path, value)})
            try:
                ModelDirectory(model).load()
            except ModelFileError:
                refused += 1
    assert refused > 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: torch.full_like(t, float("nan")), r"NaN or infinite .* in 'layers\.1\.mean'"),
        (lambda t: t.float(), "another type than float64"),
        (lambda t: t[:-1], r"layers\.1\.mean should have the sizes \(4, 2\), it has \(3, 2\)"),
    ],
)
def test_odd_tensors(change, message, model):
    folder = model / "regressor"
    tensors = load_file(folder / "model.safetensors")
    tensors["layers.1.mean"] = change(tensors["layers.1.mean"])
    save_file(tensors, folder / "model.safetensors")
    reseal(folder)
    with pytest.raises(ModelFileError, match=message):
        DeepKernelRegressor.load(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"num_inducing": 2**30, "spec": {"num_inducing": 2**30}},
        {"spec": {"num_features": 2**30}},
        {"spec": {"num_outputs": 2**30}},
        {"spec": {"depth": 2**31 - 1}},
        {"spec": {"width": 2**30}},
        {"spec": {"width": [2**30, 2**30]}},
        {"spec": {"process": "dsvi", "width": 2**24}},
        {"spec": {"mixing": 0.5}},
        {"spec": {"likelihood_options": {"num_outputs": 2**30}}},
        {"spec": {"likelihood": "categorical", "likelihood_options": {"num_classes": 2**30}}},
    ],
)
def test_a_small_file_cannot_ask_for_a_large_model(change, parts, monkeypatch):
    """Its model is laid out without memory, and compared with the tensors that are there."""

    def make(spec, original=ModelSpec.make):
        assert torch.empty(0).is_meta
        return original(spec)

    monkeypatch.setattr(ModelSpec, "make", make)
    tensors, config, history = parts
    for name, value in change.items():
        config[name] = {**config[name], **value} if isinstance(value, dict) else value
    with pytest.raises(ModelFileError):
        record.from_record(DeepKernelRegressor, tensors, config, history)


@pytest.mark.parametrize("text", ["NaN", "1e999", "9" * 5000, '{"a":' * 10**5 + "1" + "}" * 10**5])
def test_json_that_python_cannot_hold(text, model):
    file = model / "regressor" / "config.json"
    file.write_text(file.read_text().replace('"depth": 3', f'"depth": {text}', 1))
    with pytest.raises(ModelFileError, match=r"nested too deeply|damaged"):
        DeepKernelRegressor.load(file.parent)


@pytest.mark.parametrize(
    "change",
    [
        *({"files": {}}, {"content": []}, {"format": ["deepwishart-model"]}),
        *({"format_version": each} for each in (str(persistence.FORMAT_VERSION), True, 1, 3)),
    ],
)
def test_odd_documents_and_other_formats(change, model):
    reseal(model / "regressor", **change)
    message = "format version .*train again" if "format_version" in change else None
    with pytest.raises(ModelFileError, match=message):
        DeepKernelRegressor.load(model / "regressor")
