r"""Models on disk: a directory of plain data that is either whole or refused.

A model directory holds

- ``model.safetensors``: the tensors;
- ``history.json``: the course of training;
- ``config.json``: everything else, with the versions of the format and of the libraries that wrote
  it, the SHA-256 of the other two files, and its own.

There is no pickle: reading a model parses JSON and tensors and executes nothing. Checksums find
damage and careless edits; they are no signature, and do not tell who wrote a model.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import secrets
import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from deepwishart import __version__
from deepwishart._support.files import printable, sync_directory, write_atomically

__all__ = ["FORMAT_VERSION", "ModelFileError", "read_model", "write_model"]

FORMAT = "deepwishart-model"
FORMAT_VERSION = 2
_CONFIG, _TENSORS, _HISTORY = "config.json", "model.safetensors", "history.json"
_FILES = {_CONFIG, _TENSORS, _HISTORY}
_LIBRARIES = ("torch", "numpy", "scikit-learn", "safetensors")
_DTYPES = {"F64": torch.float64, "F32": torch.float32}  # those that a model may have
_TRIES = 20  # to read a model that others replace
_LARGEST_JSON = 2**28  # bytes; the history of a million steps has half of that


class ModelFileError(ValueError):
    """A model that cannot be written or read; the message says what to do. Names of files and
    what they hold appear in it without control characters."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def write_model(
    path: str | os.PathLike[str],
    tensors: dict[str, Tensor],
    config: dict[str, Any],
    history: dict[str, Any] | None = None,
) -> Path:
    """Write a model directory, all or nothing, and return its path.

    Everything goes to a temporary directory beside ``path``, reaches the disk, and is then renamed.
    A model already at ``path`` is set aside and removed only after the new one is in place; a
    failure in between puts it back, and after a crash :func:`read_model` finds it.

    Args:
        path: directory to create, or a model directory to replace; anything else is refused.
        tensors: by name.
        config: what JSON can hold.
        history: what JSON can hold, kept in a file of its own.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(os.listdir(write_model(Path(folder) / "model", {"w": torch.ones(2)}, {})))
    ['config.json', 'history.json', 'model.safetensors']
    """
    target = Path(path).resolve()
    _check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    previous = _previous(target)
    if previous.exists() and not target.exists():  # a crash between the two renames below
        os.rename(previous, target)
    shutil.rmtree(previous, ignore_errors=True)
    staging = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    staging.mkdir()
    try:
        _write_files(staging, tensors, config, history or {})
        # A directory cannot be replaced in a single rename.
        if target.exists():
            os.rename(target, previous)
        os.rename(staging, target)
    except BaseException:
        if previous.exists():
            os.rename(previous, target)
        raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    shutil.rmtree(previous, ignore_errors=True)
    sync_directory(target.parent)
    return target


def read_model(
    path: str | os.PathLike[str],
    check: Callable[[dict[str, Any], dict[str, Tensor]], object] | None = None,
) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]:
    """Read what :func:`write_model` wrote: tensors (on the CPU), config and history.

    The directory that ``deepwishart fit`` made will do as well: the model is within.

    Args:
        path: the directory.
        check: called with the config, and with tensors of the right types and sizes but without
            values, before any values are read; raises if they do not go together.

    Raises:
        ModelFileError: nothing there, a file missing, damaged or changed, or of another format.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_model(Path(folder) / "model", {"w": torch.ones(2)}, {"depth": 2})
    ...     tensors, config, history = read_model(Path(folder) / "model")
    >>> tensors["w"], config
    (tensor([1., 1.]), {'depth': 2})
    """
    for _ in range(_TRIES):
        before = _find(path)
        try:
            return _read_all(before[0], check)
        except (ModelFileError, OSError):
            if _find(path) == before:  # or it has been replaced in the meantime
                raise
    return _read_all(_find(path)[0], check)


def _find(path: str | os.PathLike[str]) -> tuple[Path, tuple[int, ...]]:
    """Where the model is, and numbers that its directory has and its successor does not."""
    where = Path(os.path.realpath(path))  # resolve() raises RuntimeError where links form a circle
    if (where / "run.json").exists() and not (where / _CONFIG).exists():
        where = where / "regressor"
    if not where.exists() and _previous(where).exists():
        where = _previous(where)  # between the two renames of write_model, perhaps after a crash
    try:
        found = where.stat()
    except OSError:
        return where, ()
    return where, (found.st_ino, found.st_mtime_ns)


def _read_all(
    where: Path, check: Callable[[dict[str, Any], dict[str, Tensor]], object] | None
) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]:
    document = _read_config(where)
    if check is not None:
        check(document["content"], _sizes(where / _TENSORS))
    contents = {name: _read(where / name, document["files"]) for name in (_TENSORS, _HISTORY)}
    try:
        tensors = safetensors.torch.load(contents[_TENSORS])
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise ModelFileError(f"The model in {where} cannot be read: {error}.") from error
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            problem = f"NaN or infinite numbers in {name!r}: it cannot predict"
            raise _damage(f"The model in {where} has {problem}")
    return tensors, document["content"], _parse(where / _HISTORY, contents[_HISTORY])


def _sizes(file: Path) -> dict[str, Tensor]:
    """The tensors in a file without their values, from its header."""
    _check_there(file)
    try:
        with safetensors.safe_open(file, "pt") as opened:
            found = {}
            for name in opened.keys():  # noqa: SIM118 (no dictionary)
                stored = opened.get_slice(name)
                dtype = _DTYPES.get(stored.get_dtype(), torch.int8)
                found[name] = torch.empty(stored.get_shape(), dtype=dtype, device="meta")
            return found
    except (SafetensorError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise _damage(f"{file} is truncated, damaged or changed: {error}") from error


def _check_there(file: Path) -> None:
    if not file.is_file():
        raise ModelFileError(f"The saved model is incomplete: {file} is missing.")


def _write_files(
    folder: Path, tensors: dict[str, Tensor], config: dict[str, Any], history: dict[str, Any]
) -> None:
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    contents = {
        _TENSORS: safetensors.torch.save(plain, metadata={"format": FORMAT}),
        _HISTORY: _to_json(history),
    }
    document: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": {
            "deepwishart": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _LIBRARIES},
        },
        "content": config,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()},
    }
    document["sha256"] = _fingerprint(document)
    contents[_CONFIG] = _to_json(document, indent=2)
    for name, data in contents.items():
        write_atomically(folder / name, data)


def _to_json(value: Any, **options: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, **options).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"The model cannot be saved as plain data: {error}.") from error


def _fingerprint(document: dict[str, Any]) -> str:
    rest = {key: value for key, value in document.items() if key != "sha256"}
    return hashlib.sha256(_to_json(rest, sort_keys=True)).hexdigest()


def _read_config(where: Path) -> dict[str, Any]:
    config = where / _CONFIG
    if not config.is_file():
        reason = f"has no {_CONFIG}" if where.is_dir() else "does not exist"
        raise ModelFileError(
            f"There is no saved model at {where}: it {reason}. Give the directory that save() "
            "wrote."
        )
    document = _parse(config, _read(config))
    if document.get("format") != FORMAT:
        raise ModelFileError(f"{config} is not the config of a {FORMAT}.")
    version = document.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise ModelFileError(
            f"The model in {where} has format version {version!r:.20}, and this deepwishart reads "
            f"{FORMAT_VERSION} only: load it with the version that saved it, or train again."
        )
    if document.get("sha256") != _fingerprint(document):
        problem = "was changed or damaged after the model was saved: its checksum does not match"
        raise _damage(f"{config} {problem}")
    if not isinstance(document.get("content"), dict) or not isinstance(document.get("files"), dict):
        raise ModelFileError(f"{config} does not describe a model.")
    return document


def _parse(file: Path, data: bytes) -> dict[str, Any]:
    """The JSON object in a file, all its numbers finite."""
    try:
        document = json.loads(data, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise _damage(f"{file} is damaged ({reason})") from error
    if not isinstance(document, dict):
        raise ModelFileError(f"{file} was not written by deepwishart: it holds no JSON object.")
    return document


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"{text} is no finite number")
    return float(text)


def _read(file: Path, files: dict[str, Any] | None = None) -> bytes:
    """The content of a file, which has the checksum that ``files`` says."""
    _check_there(file)
    if file.suffix == ".json" and file.stat().st_size > _LARGEST_JSON:
        raise ModelFileError(
            f"{file} is damaged: it has more than {_LARGEST_JSON >> 20} MB, which no model needs."
        )
    data = file.read_bytes()
    if files is not None and hashlib.sha256(data).hexdigest() != files.get(file.name):
        problem = f"its checksum does not match the one in {_CONFIG}"
        raise _damage(f"{file} is truncated, damaged or changed: {problem}")
    return data


def _damage(problem: str) -> ModelFileError:
    return ModelFileError(f"{problem}. Restore the model from a copy, or train again.")


def _check_target(target: Path) -> None:
    """Only a model directory, or an empty one, may be replaced."""
    if target.exists() and not target.is_dir():
        raise ModelFileError(f"{target} exists and is not a directory; choose another path.")
    present = {entry.name for entry in target.iterdir()} if target.exists() else set()
    if present and not (_CONFIG in present and present <= _FILES):
        raise ModelFileError(
            f"{target} holds other things than a saved model, which saving would remove; "
            "choose another path."
        )


def _previous(target: Path) -> Path:
    return target.with_name(f".{target.name}.previous")
