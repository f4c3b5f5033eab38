"""From a results directory to runs that may be averaged: whatever is there, with a sentence for all
that is not used."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

from deepwishart.reproduction.sweeps import ResultsError, ResultsStore, RunSpec, Settings
from deepwishart.reproduction.sweeps.spec import defaults, model_defaults
from deepwishart.training import Protocol

PROCESSES = ("dwp", "dgp", "diwp", "dsvi")
PROTOCOLS = ("paper", "converged")
PAPERS = "bartlett"  # the paper's posterior


@dataclass(frozen=True)
class Run:
    """A run and the record of it, its line in ``runs.jsonl``.

    >>> run = Run(RunSpec("yacht", 0, "dwp", 2), {"status": "ok", "elbo": 1.9})
    >>> run.value("elbo"), run.value("rmse"), run.settings["posterior"]
    (1.9, None, 'bartlett')
    """

    spec: RunSpec
    record: Mapping[str, Any]

    def value(self, name: str) -> float | None:
        """A number of the record, ``None`` if it is missing or not finite."""
        value = self.record.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if math.isfinite(value) else None

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """All that decides its results, the protocol's numbers included, and nothing else."""
        recorded = dict(_mapping(self.record.get("settings")))
        model = {**model_defaults(), **_mapping(recorded.pop("model", None))}
        protocol = {**defaults(Protocol), **_mapping(recorded.pop("protocol", None))}
        usual = defaults(Settings)
        own = {n: recorded.get(n, usual[n]) for n in ("start", "elbo_samples", "test_samples")}
        return {**model, **own, **protocol}

    @property
    def batches(self) -> int:
        """Training steps in one epoch."""
        batch_size, rows = self.settings["batch_size"], self.value("num_train")
        return math.ceil(rows / batch_size) if batch_size and rows else 1


Cell = tuple[str, str, str, int]
Group = tuple[Run, ...]


@dataclass(frozen=True)
class Results:
    """What a results directory holds.

    Args:
        protocols: names of the training protocols that are reported on.
        cells: runs with numbers and the paper's posterior by protocol, data set, process and depth;
            all runs of a cell have the same settings.
        others: runs of those cells with other settings, in groups of the same.
        every: all runs with numbers, of any protocol unless one was asked for.
        notes: sentences about what was left out, and why.
    """

    store: ResultsStore
    protocols: tuple[str, ...]
    cells: Mapping[Cell, Group]
    others: tuple[Group, ...]
    every: Group
    notes: tuple[str, ...]

    @property
    def runs(self) -> Group:
        """All runs in cells."""
        return tuple(run for group in self.cells.values() for run in group)

    def by_split(self, metric: str, *cell: Any) -> dict[int, float]:
        """A metric of a cell by split, averaged over the seeds of a split."""
        return by_split(self.cells.get(cell, ()), metric)

    def pair(
        self, metric: str, protocol: str, dataset: str, depth: int
    ) -> tuple[dict[int, float], dict[int, float]]:
        """A metric of DWP and DGP by split, both trained with the same settings: of those that
        both have, the ones that a cell would show; nothing if there are none."""
        groups: dict[str, dict[str, Group]] = {"dwp": {}, "dgp": {}}
        for group in (*self.cells.values(), *self.others):
            spec = group[0].spec
            if (spec.protocol, spec.dataset, spec.depth) == (protocol, dataset, depth):
                groups.get(spec.process, {})[_version(group[0])] = group
        dwp, dgp = groups.values()
        if not (common := dwp.keys() & dgp.keys()):
            return {}, {}
        version = max(common, key=lambda name: min(_weight(dwp[name]), _weight(dgp[name])))
        return by_split(dwp[version], metric), by_split(dgp[version], metric)

    def curve(self, run: Run) -> dict[str, list[float]] | None:
        """Training curve of a run, ``None`` if it is missing, damaged or empty."""
        try:
            curve, names = self.store.curve(run.spec), ("step", "elbo", "seconds")
            columns = {name: list(map(float, curve[name])) for name in names}
        except (OSError, ValueError, KeyError, TypeError):
            return None
        lengths = {len(column) for column in columns.values()}
        return columns if len(lengths) == 1 and lengths != {0} else None


def read_results(directory: str | os.PathLike[str], *, protocol: str | None = None) -> Results:
    """Read a results directory; only a directory that is not there is an error.

    Args:
        directory: that ``deepwishart uci run`` wrote to.
        protocol: the one training protocol to report on; by default ``"paper"`` and
            ``"converged"`` as far as there are such runs, or else the protocol of most runs.

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
    every = [Run(spec, record) for spec, record in sorted(records.items())]
    chosen = _choose_protocols([run.spec.protocol for run in every], protocol)
    left = sorted({run.spec.protocol for run in every} - set(chosen))
    runs = [run for run in every if run.spec.protocol in chosen]
    good = [run for run in runs if run.record.get("status") == "ok"]
    failed = [run for run in runs if run.record.get("status") != "ok"]
    reasons = (f"{run.spec} ({run.record.get('reason') or 'no reason given'})" for run in failed)
    cells, others = _sort_out(run for run in good if run.settings["posterior"] == PAPERS)
    notes = {  # each with what there has to be for it to be said
        f"{count(bad_lines, 'line')} of runs.jsonl could not be read as the record of a run and "
        f"{_was(bad_lines)} left out: {few(map(str, bad_lines))}.": bad_lines,
        f"Beside the paper's, runs of other protocols are left out: {few(left)}.": left,
        "There are no finished runs in this directory yet: only the paper's numbers are "
        "shown.": not good,
        f"{count(failed, 'run')} failed and {_was(failed)} left out of all means and tests: "
        f"{few(reasons)}.": failed,
        "Runs of different settings are never averaged. Where a cell has several, the tables show "
        "the settings with most splits (of these the usual inducing points, and the newest), and "
        "'Other settings' the rest: "
        f"{count(others, 'group')}.": others,
    }
    said = tuple(note for note, reason in notes.items() if reason)
    known = good if protocol else [run for run in every if run.record.get("status") == "ok"]
    return Results(store, chosen, cells, others, tuple(known), said)


def by_split(runs: Iterable[Run], metric: str) -> dict[int, float]:
    """A metric by split, averaged over the seeds of a split."""
    values: dict[int, list[float]] = {}
    for run in runs:
        if (value := run.value(metric)) is not None:
            values.setdefault(run.spec.split, []).append(value)
    return {split: math.fsum(v) / len(v) for split, v in sorted(values.items())}


def process_order(names: Iterable[str]) -> tuple[str, ...]:
    """Names of processes in the order of the tables."""
    rank = {name: number for number, name in enumerate(PROCESSES)}
    return tuple(sorted(set(names), key=lambda name: (rank.get(name, len(rank)), name)))


def count(things: Sized, noun: str) -> str:
    """How many things there are: ``1 run``, ``2 runs``."""
    return f"{len(things)} {noun}{'s' * (len(things) != 1)}"


def few(texts: Iterable[str], most: int = 8) -> str:
    """The first of the texts, and how many more there are."""
    items = list(texts)
    rest = [f"and {len(items) - most} more"] if len(items) > most else []
    return ", ".join(items[:most] + rest)


def _choose_protocols(names: list[str], wanted: str | None) -> tuple[str, ...]:
    if wanted is not None:
        if names and wanted not in names:
            raise ResultsError(
                f"There are no runs with protocol {wanted!r}; there are some with "
                f"{', '.join(sorted(set(names)))}."
            )
        return (wanted,)
    usual = tuple(name for name in PROTOCOLS if name in names)
    return usual or (max(sorted(set(names)), key=names.count),) if names else PROTOCOLS[:1]


def _sort_out(runs: Iterable[Run]) -> tuple[dict[Cell, Group], tuple[Group, ...]]:
    """Runs by cell, and those that must not be averaged with the others of their cell: of several
    groups with the same settings a cell has the one with most splits; of those one with the usual
    number of inducing points, since others are for comparison; of those the newest."""
    groups: dict[Cell, dict[str, list[Run]]] = {}
    for run in runs:
        cell = run.spec.protocol, run.spec.dataset, run.spec.process, run.spec.depth
        groups.setdefault(cell, {}).setdefault(_version(run), []).append(run)
    cells: dict[Cell, Group] = {}
    others: list[Group] = []
    for cell, versions in groups.items():
        cells[cell], *rest = map(tuple, sorted(versions.values(), key=_weight, reverse=True))
        others += rest
    return cells, tuple(others)


def _version(run: Run) -> str:
    return json.dumps(run.settings, sort_keys=True)


def _weight(group: Sequence[Run]) -> tuple[int, bool, str]:
    newest = max(str(run.record.get("finished_at", "")) for run in group)
    usual = group[0].settings["num_inducing"] == model_defaults()["num_inducing"]
    return len({run.spec.split for run in group}), usual, newest


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _was(things: Sized) -> str:
    return "was" if len(things) == 1 else "were"
