"""From a results directory to runs: whatever is there, with a sentence for all that is not used."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import Any

from deepwishart.reproduction.sweeps import ResultsError, ResultsStore, RunSpec

__all__ = ["PROCESSES", "Results", "Run", "process_order", "read_results"]

PROCESSES = ("dwp", "dgp", "diwp", "dsvi")


@dataclass(frozen=True)
class Run:
    """A run and the record of it, its line in ``runs.jsonl``.

    >>> run = Run(RunSpec("yacht", 0, "dwp", 2), {"status": "ok", "elbo": 1.9})
    >>> run.value("elbo"), run.value("rmse")
    (1.9, None)
    """

    spec: RunSpec
    record: Mapping[str, Any]

    def value(self, name: str) -> float | None:
        """A number of the record, ``None`` if it is missing or not finite."""
        value = self.record.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if math.isfinite(value) else None

    @property
    def batches(self) -> int:
        """Training steps in one epoch."""
        protocol = _mapping(_mapping(self.record.get("settings")).get("protocol"))
        batch_size, rows = protocol.get("batch_size"), self.value("num_train")
        return math.ceil(rows / batch_size) if batch_size and rows else 1


@dataclass(frozen=True)
class Results:
    """What a results directory holds for one training protocol.

    Args:
        store: the directory.
        protocol: name of the protocol.
        runs: runs with numbers, ordered by their specification.
        failed: runs without.
        notes: sentences about what was left out, and why.
    """

    store: ResultsStore
    protocol: str
    runs: tuple[Run, ...]
    failed: tuple[Run, ...]
    notes: tuple[str, ...]

    @property
    def processes(self) -> tuple[str, ...]:
        """Names of the processes, DWP and DGP first and always."""
        return process_order({"dwp", "dgp"} | {run.spec.process for run in self.runs})

    def by_split(self, metric: str, dataset: str, process: str, depth: int) -> dict[int, float]:
        """A metric by split, averaged over the seeds of a split."""
        values: dict[int, list[float]] = {}
        for run in self.runs:
            cell = run.spec.dataset, run.spec.process, run.spec.depth
            if cell == (dataset, process, depth) and (value := run.value(metric)) is not None:
                values.setdefault(run.spec.split, []).append(value)
        return {split: math.fsum(v) / len(v) for split, v in sorted(values.items())}

    def curve(self, run: Run) -> dict[str, list[float]] | None:
        """Training curve of a run, ``None`` if it is missing, damaged or empty."""
        try:
            curve, names = self.store.curve(run.spec), ("step", "elbo", "seconds")
            columns = {name: list(map(float, curve[name])) for name in names}
        except (OSError, ValueError, KeyError, TypeError):
            return None
        lengths = {len(column) for column in columns.values()}
        return columns if len(lengths) == 1 and lengths != {0} else None

    def settings(self) -> dict[str, str]:
        """How the runs were made: names of settings, each with all values that it has."""
        found: dict[str, set[str]] = {}
        for run in self.runs:
            settings = _mapping(run.record.get("settings"))
            for group in (settings, _mapping(settings.get("protocol"))):
                for name, value in group.items():
                    if not isinstance(value, Mapping) and value is not None:
                        found.setdefault(name, set()).add(str(value))
            for name, version in _mapping(run.record.get("versions")).items():
                found.setdefault(f"version of {name}", set()).add(str(version))
        return {name: ", ".join(sorted(values)) for name, values in found.items()}


def read_results(directory: str | os.PathLike[str], *, protocol: str | None = None) -> Results:
    """Read a results directory; only a directory that is not there is an error.

    Args:
        directory: that ``deepwishart uci run`` wrote to.
        protocol: which runs to use, by training protocol; by default ``"paper"`` if there are any
            such runs, else the protocol of most runs.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     print(*read_results(directory).notes)
    There are no finished runs in this directory yet: only the paper's numbers are shown.
    """
    store = ResultsStore(directory)
    if not store.directory.is_dir():
        raise ResultsError(
            f"There is no directory {os.fspath(directory)}. Name the one that 'deepwishart uci run "
            "--out' wrote to."
        )
    # A sweep stops at a damaged line, a report shows what there is.
    records, bad_lines, _ = store.read()
    notes = []
    if bad_lines:
        notes.append(
            f"{_count(bad_lines, 'line')} of runs.jsonl could not be read as the record of a "
            f"run and {_was(bad_lines)} left out: {_few(map(str, bad_lines))}."
        )
    chosen = _choose_protocol([spec.protocol for spec in records], protocol)
    runs = [Run(spec, record) for spec, record in sorted(records.items())]
    others = [run.spec.protocol for run in runs if run.spec.protocol != chosen]
    if others:
        notes.append(
            f"{_count(others, 'run')} with another training protocol "
            f"({_few(sorted(set(others)))}) {_was(others)} left out."
        )
    runs = [run for run in runs if run.spec.protocol == chosen]
    good = tuple(run for run in runs if run.record.get("status") == "ok")
    failed = tuple(run for run in runs if run.record.get("status") != "ok")
    if not good:
        notes.append(
            "There are no finished runs in this directory yet: only the paper's numbers are shown."
        )
    if failed:
        notes.append(
            f"{_count(failed, 'run')} failed and {_was(failed)} left out of all means and tests: "
            f"{_few(f'{run.spec} ({_reason(run)})' for run in failed)}."
        )
    return Results(store, chosen, good, failed, tuple(notes))


def process_order(names: Iterable[str]) -> tuple[str, ...]:
    """Names of processes in the order of the tables.

    >>> process_order(["diwp", "dgp", "dwp"])
    ('dwp', 'dgp', 'diwp')
    """
    rank = {name: number for number, name in enumerate(PROCESSES)}
    return tuple(sorted(set(names), key=lambda name: (rank.get(name, len(rank)), name)))


def _choose_protocol(names: list[str], wanted: str | None) -> str:
    if wanted is not None:
        if names and wanted not in names:
            raise ResultsError(
                f"There are no runs with protocol {wanted!r}; there are some with "
                f"{', '.join(sorted(set(names)))}."
            )
        return wanted
    if "paper" in names or not names:
        return "paper"
    return max(sorted(set(names)), key=names.count)


def _reason(run: Run) -> str:
    return str(run.record.get("reason") or "no reason given")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}{'s' * (len(things) != 1)}"


def _was(things: Sized) -> str:
    return "was" if len(things) == 1 else "were"


def _few(texts: Iterable[str], most: int = 8) -> str:
    """The first of the texts, and how many more there are."""
    items = list(texts)
    rest = [f"and {len(items) - most} more"] if len(items) > most else []
    return ", ".join(items[:most] + rest)
