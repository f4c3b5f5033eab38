r"""Checkpoints that survive a power cut: one file each, replaced as a whole, checksummed.

A checkpoint is a safetensors file: tensors, and next to them a JSON text in the metadata, with the
SHA-256 of all that can be read from it. Nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from deepwishart._support.arguments import whole_number
from deepwishart._support.files import PARTIAL, printable, write_atomically
from deepwishart.training.protocol import Protocol

FORMAT = "deepwishart checkpoint 3"
_NAME = re.compile(r"step-(\d+)\.safetensors")
MODEL = "model."


class CheckpointError(ValueError):
    """A checkpoint cannot be used: damaged, of another format, or of another run."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class CheckpointWarning(UserWarning):
    """A checkpoint was passed over because it is damaged."""


class DamagedCheckpointError(CheckpointError):
    """A checkpoint is truncated, or its content does not match its checksum."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training run: ``tensors`` by name, and ``info``, which is plain JSON.

    >>> checkpoint = Checkpoint({"weight": torch.ones(2)}, {"step": 7})
    >>> Checkpoint.decode(checkpoint.encode()).step
    7
    """

    tensors: dict[str, Tensor]
    info: dict[str, Any]

    @property
    def step(self) -> int:
        """Number of finished steps."""
        return int(self.info["step"])

    def encode(self) -> bytes:
        """The content of a checkpoint file."""
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.tensors.items()}
        info = json.dumps(self.info)
        metadata = {"format": FORMAT, "info": info, "sha256": _digest(FORMAT, info, tensors)}
        return safetensors.torch.save(tensors, metadata)

    @classmethod
    def decode(cls, content: bytes, source: str = "The checkpoint") -> Checkpoint:
        """Read the content of a checkpoint file, which ``source`` names in errors.

        Raises:
            CheckpointError: the content is damaged, or of another format.
        """
        try:
            tensors = safetensors.torch.load(content)
            header = content[8 : 8 + int.from_bytes(content[:8], "little")]
            metadata = json.loads(header).get("__metadata__", {})
        except (safetensors.SafetensorError, ValueError) as error:
            raise DamagedCheckpointError(f"{source} is damaged: {error}.") from error
        form, info = metadata.get("format", ""), metadata.get("info", "")
        if metadata.get("sha256") != _digest(form, info, tensors):
            raise DamagedCheckpointError(
                f"{source} is damaged: its content has another checksum, or none."
            )
        if form != FORMAT:
            raise CheckpointError(
                f"{source} is a {form}, and this version continues from a {FORMAT} only; use "
                "another directory."
            )
        return cls(tensors, json.loads(info))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Read a checkpoint file."""
        return cls.decode(Path(path).read_bytes(), source=f"The checkpoint {path}")

    @torch.no_grad()
    def load_into(self, model: nn.Module) -> None:
        """Set the model to the state in this checkpoint; its structure has to be the same."""
        own = model.state_dict()
        saved = {n.removeprefix(MODEL): v for n, v in self.tensors.items() if n.startswith(MODEL)}
        for name in [*own, *saved]:
            here, there = _shape(own.get(name)), _shape(saved.get(name))
            if here != there:
                raise CheckpointError(
                    f"The checkpoint was written for another model: {name} is {there} there and "
                    f"{here} here. Build the model as in the run to be resumed, or use another "
                    "checkpoint directory."
                )
        for name, value in own.items():
            value.copy_(saved[name])


class CheckpointStore:
    """A directory with the newest checkpoints of one training run.

    A new checkpoint is written beside the old ones, flushed to disk and only then given its name,
    and the oldest is deleted last. Whenever the process or the machine stops, the directory holds
    a complete checkpoint.

    Args:
        directory: made if it does not exist.
        every_steps: number of steps between checkpoints.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     store = CheckpointStore(directory, every_steps=100)
    ...     path = store.save(Checkpoint({"weight": torch.ones(2)}, {"step": 100}))
    ...     path.name, store.latest().step
    ('step-000000100.safetensors', 100)
    """

    keep = 2  # the older one serves if the newest is damaged

    def __init__(self, directory: str | os.PathLike[str], every_steps: int = 500) -> None:
        self.every_steps = whole_number("every_steps", every_steps)
        self.directory = Path(directory)
        if self.directory.exists() and not self.directory.is_dir():
            raise ValueError(f"The checkpoint directory {directory} is a file; name a directory.")

    def paths(self) -> list[Path]:
        """All checkpoint files, newest first."""
        found = [path for path in self.directory.glob("step-*") if _NAME.fullmatch(path.name)]
        return sorted(found, key=_step_of, reverse=True)

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, then delete those that are no longer needed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"step-{checkpoint.step:09d}.safetensors"
        write_atomically(path, checkpoint.encode())
        self._prune(checkpoint.step)
        return path

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint that is intact, or ``None`` if there are no checkpoints.

        A damaged one is passed over with a :class:`CheckpointWarning`.

        Raises:
            CheckpointError: all checkpoints are damaged, or the newest intact one is of another
                format.
        """
        paths = self.paths()
        for path in paths:
            try:
                return Checkpoint.read(path)
            except DamagedCheckpointError as error:
                warnings.warn(f"{error} Trying the one before it.", CheckpointWarning, stacklevel=2)
        if paths:
            raise CheckpointError(
                f"None of the {len(paths)} checkpoints in {self.directory} is intact. Delete them "
                "to train from the beginning, or restore them from a backup."
            )
        return None

    def clear(self) -> None:
        """Delete all checkpoints."""
        for path in self.paths():
            path.unlink()

    def _prune(self, step: int) -> None:
        # Files of later steps are leftovers that could not be read when this run was resumed.
        current = [path for path in self.paths() if _step_of(path) <= step][: self.keep]
        partial = self.directory.glob(f".step-*{PARTIAL}")
        for path in {*self.paths(), *partial} - set(current):
            path.unlink(missing_ok=True)


def _digest(form: str, info: str, tensors: dict[str, Tensor]) -> str:
    return fingerprint(form, info, *(part for named in sorted(tensors.items()) for part in named))


def fingerprint(*values: Any) -> str:
    """SHA-256 of tensors, and of whatever else says by its ``repr`` what it is."""
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().numpy().data)
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()


def checkpoint_store(
    directory: str | os.PathLike[str],
    model: nn.Module,
    X: Tensor,
    y: Tensor,
    protocol: Protocol,
    seed: int,
) -> CheckpointStore:
    """A directory of its own for every combination of data, initial model, protocol and seed: the
    same run started again resumes, a different one cannot pick its checkpoints up by mistake.

    >>> X, protocol = torch.randn(20, 1), Protocol.named("fast", num_rows=20)
    >>> run = ("runs", nn.Linear(1, 1), X, X, protocol)
    >>> checkpoint_store(*run, seed=0).directory == checkpoint_store(*run, seed=1).directory
    False
    """
    start = [part for named in model.state_dict().items() for part in named]
    name = fingerprint(sorted(asdict(protocol).items()), seed, X, y, *start)
    return CheckpointStore(Path(directory) / name[:16])


def _step_of(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def _shape(value: Tensor | None) -> str:
    if value is None:
        return "missing"
    return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
