"""Results on disk: one line of JSON per finished run, and nothing a crash can spoil.

A results directory holds

- ``runs.jsonl``: one record per finished run, appended and flushed to disk line by line,
- ``curves/<run>.json``: training curves, written before the run's record,
- ``checkpoints/<run>/``: unfinished runs, and what their workers had to say; deleted once the run's
  record is on disk.

Only one process writes, the one that conducts the sweep, and it holds a lock while it does. A
process killed in the middle of a line leaves a torn last line, which is not a record: readers skip
it, the next sweep cuts it off and does the run again.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from deepwishart._support.files import sync_directory, write_atomically
from deepwishart._support.lock import locked
from deepwishart.reproduction.sweeps.spec import RunSpec

_ANY = RunSpec("", 0, "", 0)
_PLAIN = re.compile(r"[\w-]{0,99}", re.ASCII)
_NUMBERS = (
    *("elbo", "test_log_likelihood", "rmse", "crps", "coverage90"),
    *("seconds_per_step", "seconds_per_epoch"),
)


class ResultsError(ValueError):
    """A results directory cannot be used: it is damaged, or no directory."""


class ResultsStore:
    """A results directory, made when something is first written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     store = ResultsStore(directory)
    ...     with store.writing():
    ...         store.add(
    ...             {**RunSpec("yacht", 0, "dwp", 2).to_dict(), "status": "ok"}, {"step": [0]}
    ...         )
    ...     [(spec.dataset, record["status"]) for spec, record in store.records().items()]
    [('yacht', 'ok')]
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory).absolute()
        self._runs = self.directory / "runs.jsonl"

    def records(self) -> dict[RunSpec, dict[str, Any]]:
        """Records of all finished runs; of a run that was done again, the last one."""
        records, bad, lines = self.read()
        if bad and bad[0] < len(lines):
            raise ResultsError(
                f"Line {bad[0]} of {self._runs} is not the record of a run. Delete the line to "
                "have that run done again."
            )
        return records

    def read(self) -> tuple[dict[RunSpec, dict[str, Any]], list[int], list[bytes]]:
        """Whatever records there are, the numbers of lines that hold none, and all lines."""
        lines = self._runs.read_bytes().splitlines(keepends=True) if self._runs.exists() else []
        records, bad = {}, []
        for number, line in enumerate(lines, start=1):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("The line is torn.")
                record = json.loads(line)
                records[_checked(record)] = record
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                bad.append(number)
        return records, bad, lines

    def curve(self, spec: RunSpec) -> dict[str, list[float]]:
        """Training curve of a finished run: lists ``step``, ``elbo`` and ``seconds``."""
        path = self._curve_path(spec)
        try:
            curve = json.loads(path.read_text("utf-8"))
            table = np.array([curve.get(name, []) for name in ("step", "elbo", "seconds")])
            if table.ndim != 2 or table.dtype.kind not in "if":
                raise ValueError("Not three lists of numbers.")
        except (ValueError, AttributeError, TypeError, RecursionError):
            raise ResultsError(
                f"{path} is no training curve. Delete it to have a report without it."
            ) from None
        return dict(zip(("step", "elbo", "seconds"), table.tolist(), strict=True))

    def checkpoint_dir(self, spec: RunSpec) -> Path:
        """Where a run keeps its checkpoints."""
        return self.directory / "checkpoints" / spec.key

    @contextmanager
    def writing(self) -> Iterator[None]:
        """The right to write; one process at a time. Repairs what an earlier one left behind."""
        if self.directory.exists() and not self.directory.is_dir():
            raise ResultsError(f"{self.directory} is a file; name a directory for the results.")
        with locked(self.directory):
            for spec in self.records():
                self._discard_checkpoints(spec)
            _, bad, lines = self.read()
            if bad:  # the last line, and nobody else is writing
                os.truncate(self._runs, sum(map(len, lines[:-1])))
            yield

    def add(self, record: Mapping[str, Any], curve: Mapping[str, list[float]]) -> None:
        """Write down a finished run, for good when this returns."""
        spec = RunSpec.from_dict(record)
        line = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        path = self._curve_path(spec)
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, json.dumps(curve, separators=(",", ":"), allow_nan=False))
        with open(self._runs, "ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        sync_directory(self.directory)
        self._discard_checkpoints(spec)

    def _curve_path(self, spec: RunSpec) -> Path:
        return self.directory / "curves" / f"{spec.key}.json"

    def _discard_checkpoints(self, spec: RunSpec) -> None:
        shutil.rmtree(self.checkpoint_dir(spec), ignore_errors=True)


def _checked(record: Mapping[str, Any]) -> RunSpec:
    """The run of a record whose entries are of the types that reports count on."""
    spec = RunSpec.from_dict(record)
    for name, value in spec.to_dict().items():
        kind = type(getattr(_ANY, name))
        # What they say becomes part of the names of files.
        if type(value) is not kind or not _PLAIN.fullmatch(str(value)):
            raise ValueError(f"{name} is {value!r:.60}.")
    settings, status = record.get("settings", {}), record["status"]
    parts = [settings, *(settings.get(name, {}) for name in ("model", "protocol"))]
    numbers = [record[name] for name in _NUMBERS if name in record]
    numbers += [settings["protocol"].get("kl_anneal", 0)] if "protocol" in settings else []
    if (
        not all(type(part) is dict for part in parts)
        or not all(type(each) in (int, float) and abs(each) < math.inf for each in numbers)
        or (status != "ok" and not (status == "failed" and type(record["reason"]) is str))
    ):
        raise ValueError("An entry has a type that it should not have.")
    return spec


def pending(
    specs: Sequence[RunSpec], store: ResultsStore, *, retry_failed: bool = False
) -> list[RunSpec]:
    """The runs that have no record yet, or, with ``retry_failed``, a record of failure.

    >>> pending([RunSpec("yacht", 0, "dwp", 2)], ResultsStore("a_new_directory"))[0].key
    'yacht-split00-dwp-depth2-seed0-paper'
    """
    records = store.records().items()
    done = {spec for spec, record in records if record["status"] == "ok" or not retry_failed}
    return [spec for spec in specs if spec not in done]
