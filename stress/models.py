"""Damaged model directories, for ``predict``, ``info`` and ``DeepKernelRegressor.load``."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from safetensors.torch import load, save

from deepwishart.estimators import DeepKernelClassifier, DeepKernelRegressor
from deepwishart.persistence import ModelFileError
from stress.cases import Failed, Outcome
from stress.command import check_predictions, command, judge
from stress.damage import damage_bytes
from stress.tables import ENCODINGS, base_columns, fit

__all__ = ["SUITE"]

FILES = ("config.json", "history.json", "model.safetensors")
BASES = {
    "dwp": ["--depth", "3", "--width", "2"],
    "dwp-inducing": ["--output", "inducing", "--dtype", "float32"],
    "dgp": ["--process", "dgp", "--output", "inducing", "--cv", "2"],
    "dsvi": ["--process", "dsvi", "--output", "inducing", "--depth", "1"],
    "diwp": ["--process", "diwp", "--kernel", "matern32"],
    "classes": ["--depth", "1"],
}
ODD = (
    *(None, True, False, -1, 0, 1, 2, 3, 17, 20_000, 2**31, 2**63, 2**70, 10**400, -(10**400)),
    *(0.0, -0.0, 0.5, 3.5, -2.5, 1e-320, 1e300, -1e300, "", "x", "dwp", "nan", "\x1b[2J"),
    *("collapsed", "inducing", "float32", "float64", "paper", "cuda:0", "../..", "\u0000"),
    *("\ud800", "a" * 9999, [], [1], [None], [[]], [0.5] * 3, ["x"], [1] * 1000),
    *({}, {"a": 1}, {"": {}}),
)
DELETED = object()


class Models:
    """Directories as ``deepwishart fit`` writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.table = folder, folder / "table.csv"

    def prepare(self) -> None:
        """A model of each kind, and what it predicts."""
        self.folder.mkdir(exist_ok=True)
        pl.DataFrame(base_columns()).write_csv(self.table)
        for name, options in BASES.items():
            target = "colour" if name == "classes" else "price"
            if (ended := fit(self.table, target, self.folder / name, *options)).code:
                raise Failed(ended.err)
            predicted = command("predict", self.folder / name, self.table).out
            (self.folder / f"{name}.csv").write_text(predicted)

    def run(self, rng: random.Random, folder: Path) -> Outcome:
        """One damaged directory, read in one of the ways there are."""
        name = rng.choice(tuple(BASES))
        model = folder / "model"
        shutil.copytree(self.folder / name, model)
        what, sealed = rng.choice(DAMAGES)(model / "regressor", rng)
        if sealed:
            reseal(model / "regressor")
        how = rng.choice((self._check_predict,) * 3 + (_check_info, _check_load))
        return Outcome(f"{name}: {what}", how(model, name, sealed))

    def _check_predict(self, model: Path, name: str, sealed: bool) -> str:
        ended = command("predict", model, self.table)
        if judge(ended) == "accepted":
            check_predictions(ended.out, num_rows=30)
            if not sealed and ended.out != (self.folder / f"{name}.csv").read_text():
                raise Failed("a damaged model predicts something else, at exit code 0")
        return judge(ended)


SUITE = Models


def _check_info(model: Path, name: str, sealed: bool) -> str:
    ended, as_json = command("info", model), command("info", model, "--json")
    if judge(ended) != judge(as_json):
        raise Failed(f"info and info --json differ: {ended.err} {as_json.err}")
    if not as_json.code:
        json.loads(as_json.out, parse_constant=_no_constant)
    return judge(ended)


def _no_constant(text: str) -> None:
    raise Failed(f"{text} in the JSON of info")


def _check_load(model: Path, name: str, sealed: bool) -> str:
    """From Python: the model file's own error, or a model that predicts numbers."""
    kind: Any = DeepKernelClassifier if name == "classes" else DeepKernelRegressor
    try:
        estimator = kind.load(model / "regressor")
    except (ModelFileError, OSError):
        return "refused"
    X: Any = np.zeros((3, estimator.n_features_in_))
    try:
        if hasattr(estimator, "feature_names_in_"):
            X = pl.DataFrame(X, schema=[str(name) for name in estimator.feature_names_in_])
        answer = (estimator.predict_proba if name == "classes" else estimator.predict)(X)
    except (ValueError, ArithmeticError):
        return "refused"
    if not np.isfinite(answer).all():
        raise Failed("predictions that are no numbers, and no error")
    return "accepted"


# ---- damage --------------------------------------------------------------------------------------

Damage = Callable[[Path, random.Random], tuple[str, bool]]


def _bytes(folder: Path, rng: random.Random) -> tuple[str, bool]:
    """Bytes of a file, whose checksum is made to fit or stays as it was."""
    sealed = rng.random() < 0.3
    name = rng.choice(FILES[1:] if sealed else (*FILES, "../run.json"))
    what, data = damage_bytes((folder / name).read_bytes(), rng)
    (folder / name).write_bytes(data)
    return f"{name}: {what}{', resealed' * sealed}", sealed


def _odd_value(folder: Path, rng: random.Random) -> tuple[str, bool]:
    """Entries of a JSON file with other values, checksums made to fit."""
    name = rng.choice(("config.json", "config.json", "history.json"))
    document = json.loads((folder / name).read_text())
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        inside = document.get("content", document) if rng.random() < 0.9 else document
        if not (entries := list(_entries(inside))):
            break
        (where, key), value = rng.choice(entries), rng.choice((DELETED, *ODD))
        if value is DELETED:
            del where[key]
        else:
            where[key] = copy.deepcopy(value)  # or a list could get into itself
    (folder / name).write_text(json.dumps(document))
    return f"{name}: odd values", True


def _odd_tensor(folder: Path, rng: random.Random) -> tuple[str, bool]:
    """Tensors with other values, types, shapes or names, checksums made to fit."""
    tensors = load((folder / FILES[2]).read_bytes())
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(list(tensors))
        what = rng.choice(tuple(TENSORS))
        if (changed := TENSORS[what](tensors.pop(name), rng)) is not None:
            tensors[f"{name}.x" if what == "renamed" else name] = changed.contiguous()
    (folder / FILES[2]).write_bytes(save(tensors))
    return f"tensors: {what}", True


def _poke(value: Any) -> Callable[[torch.Tensor, random.Random], torch.Tensor]:
    def change(tensor: torch.Tensor, rng: random.Random) -> torch.Tensor:
        flat = tensor.clone().reshape(-1)
        if len(flat):
            flat[rng.randrange(len(flat))] = torch.tensor(value).to(flat.dtype)
        return flat.reshape(tensor.shape)

    return change


TENSORS: dict[str, Callable[[torch.Tensor, random.Random], torch.Tensor | None]] = {
    "missing": lambda tensor, rng: None,
    "renamed": lambda tensor, rng: tensor,
    **{f"one {value}": _poke(value) for value in (float("nan"), float("inf"), 1e30, -1e30)},
    **{
        f"all {value}": lambda tensor, rng, value=value: torch.full_like(tensor, value)
        for value in (0.0, 1e35, 1e-38)
    },
    **{
        f"of {dtype}": lambda tensor, rng, dtype=dtype: tensor.to(dtype)
        for dtype in (torch.int64, torch.bfloat16, torch.float32, torch.complex64)
    },
    "negated": lambda tensor, rng: -tensor,
    "times 1000": lambda tensor, rng: tensor * 1000,
    "flat": lambda tensor, rng: tensor.reshape(-1),
    "with one dimension more": lambda tensor, rng: tensor[None],
    "transposed": lambda tensor, rng: tensor.mT if tensor.ndim == 2 else tensor[..., None],
    "shorter": lambda tensor, rng: tensor[:-1] if tensor.ndim else tensor[None],
    "empty": lambda tensor, rng: tensor.reshape(-1)[:0],
    "longer": lambda tensor, rng: torch.cat([tensor, tensor]) if tensor.ndim else tensor[None],
}


def _odd_header(folder: Path, rng: random.Random) -> tuple[str, bool]:
    """Sizes and offsets in the header of the tensors that are not there."""
    data = (folder / FILES[2]).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    names = [name for name in header if name != "__metadata__"]
    entry = header[rng.choice(names)]
    key = rng.choice(tuple(entry))
    entry[key] = rng.choice(
        (*ODD, [2**40, 2**20], [2**63, 2], [10**9], [0, 2**62], [-1, 8], [8, 0], "F64", "I8", "F8")
    )
    if rng.random() < 0.2:
        header = {**header, **{f"z{i}": entry for i in range(rng.choice((1, 10_000)))}}
    text = json.dumps(header).encode()
    if rng.random() < 0.2:
        text = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    claimed = rng.choice((len(text),) * 6 + (0, 2**20, 2**63, 2**64 - 1))
    (folder / FILES[2]).write_bytes(claimed.to_bytes(8, "little") + text + data[8 + length :])
    return "header of the tensors", True


def _odd_text(folder: Path, rng: random.Random) -> tuple[str, bool]:
    """Files in another encoding, that are no JSON, or too much of it."""
    name = rng.choice(FILES[:2])
    text = (folder / name).read_text()
    if rng.random() < 0.4:
        encoding = rng.choice(ENCODINGS)
        (folder / name).write_bytes(text.encode(encoding, errors="replace"))
        return f"{name} in {encoding}", True
    depth = rng.choice((100, 1000, 100_000))
    deep = '{"a":' * depth + "1" + "}" * depth
    first = rng.choice(("{", '"content": {'))
    changed = rng.choice(
        (
            "[" * depth + "]" * depth,
            deep,
            text.replace(first, f'{first}"z": {deep},', 1),
            text.replace(": 2", ": " + "9" * rng.choice((30, 5000))),
            text.replace(": ", ": 1e999,", 1),
            text.replace("0.", "NaN", 1),
            *("null", "3", '"x"', "[]", "{}", "true"),
        )
    )
    (folder / name).write_text(changed)
    return f"{name}: odd text", True


def _odd_files(folder: Path, rng: random.Random) -> tuple[str, bool]:
    """Files that are missing, or something else than files."""
    name = rng.choice((*FILES, "../run.json", "."))
    path = folder / name if name != "." else folder
    what = rng.choice(("missing", "a directory", "a link to itself", "a device", "a pipe"))
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if what == "a directory":
        path.mkdir()
    elif what == "a link to itself":
        path.symlink_to(path)
    elif what == "a device":
        path.symlink_to("/dev/zero")
    elif what == "a pipe":
        os.mkfifo(path)
    return f"{name} is {what}", False


DAMAGES: tuple[Damage, ...] = (
    *(_bytes, _bytes, _bytes, _odd_value, _odd_value, _odd_value, _odd_value),
    *(_odd_tensor, _odd_tensor, _odd_header, _odd_text, _odd_text, _odd_files),
)


def reseal(folder: Path) -> None:
    """Make the checksums fit, as someone would who means harm."""
    path = folder / "config.json"
    try:
        document = json.loads(path.read_text())
    except (ValueError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    document["files"] = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES[1:]
    }
    document.pop("sha256", None)
    text = json.dumps(document, sort_keys=True)
    document["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(document, indent=2))


def _entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every entry of a nested document, as what it is in and its key there."""
    if isinstance(value, dict | list):
        for key, child in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _entries(child)
