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
    >>> run.settings["posterior"]
    'bartlett'
    """

    spec: RunSpec
    record: Mapping[str, Any]

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """All that decides its results, the protocol's numbers included, and nothing else."""
        recorded, usual = self.record.get("settings", {}), defaults(Settings)
        model = {**model_defaults(), **recorded.get("model", {})}
        # What protocols have had: some runs started from a single layer, trained for so many steps.
        retired = {"shallow_steps": 0, "clip_norm": None}
        protocol = {**defaults(Protocol), **retired, **recorded.get("protocol", {})}
        own = {n: recorded.get(n, usual[n]) for n in ("start", "elbo_samples", "test_samples")}
        return {**model, **own, **protocol}


Cell = tuple[str, str, str, int]
Group = tuple[Run, ...]


@dataclass(frozen=True)
class Results:
    """What a results directory holds.

    Args:
        protocols: names of the training protocols that are reported on.
        groups: runs with numbers and the paper's posterior, by protocol, data set, process and
            depth: groups of the same settings, of which the first is what tables show.
        every: all runs with numbers, of any protocol and posterior.
        notes: sentences about what was left out, and why.
    """

    store: ResultsStore
    protocols: tuple[str, ...]
    groups: Mapping[Cell, Sequence[Group]]
    every: Group
    notes: tuple[str, ...]

    @property
    def runs(self) -> Group:
        """All runs that tables show."""
        return tuple(run for shown, *_ in self.groups.values() for run in shown)

    @property
    def others(self) -> list[Group]:
        """Groups of runs whose settings are not those that tables show."""
        return [group for _, *others in self.groups.values() for group in others]

    def cell(self, *cell: Any) -> Group:
        """The runs that tables show for a protocol, data set, process and depth."""
        return next(iter(self.groups.get(cell, ())), ())

    def by_split(self, metric: str, *cell: Any) -> dict[int, float]:
        """A metric of a :meth:`cell` by split, averaged over the seeds of a split."""
        return by_split(self.cell(*cell), metric)

    def pair(
        self, metric: str, protocol: str, dataset: str, depth: int
    ) -> tuple[dict[int, float], dict[int, float]]:
        """A metric of DWP and DGP by split, both trained with the same settings: of those that
        both have, the ones that a cell would show; nothing if there are none."""
        both = (self.groups.get((protocol, dataset, p, depth), ()) for p in ("dwp", "dgp"))
        dwp, dgp = ({_version(group[0]): group for group in groups} for groups in both)
        if not (common := dwp.keys() & dgp.keys()):
            return {}, {}
        version = max(common, key=lambda name: min(_weight(dwp[name]), _weight(dgp[name])))
        return by_split(dwp[version], metric), by_split(dgp[version], metric)

    def curve(self, run: Run) -> dict[str, list[float]] | None:
        """Training curve of a run, ``None`` if it is missing or empty."""
        try:
            curve = self.store.curve(run.spec)
        except OSError:
            return None
        return curve if curve["step"] else None


def read_results(directory: str | os.PathLike[str]) -> Results:
    """Read a results directory; only a directory that is not there is an error.

    The report is on the protocols ``"paper"`` and ``"converged"`` as far as there are such runs, or
    else on the one with most runs.

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
    names = [run.spec.protocol for run in every]
    usual = [name for name in PROTOCOLS if name in names]
    protocols = usual or [max(names, key=names.count, default=PROTOCOLS[0])]
    good = [run for run in every if run.record["status"] == "ok"]
    shown = [run for run in good if run.spec.protocol in protocols]
    groups = grouped(run for run in shown if run.settings["posterior"] == PAPERS)
    notes = []
    if bad_lines:
        what = f"{count(bad_lines, 'line')} of runs.jsonl could not be read as the record of a run"
        notes.append(f"{what}: {few(map(str, bad_lines))}.")
    if left := sorted(set(names) - set(protocols)):
        notes.append(f"Beside the paper's, runs of other protocols are left out: {few(left)}.")
    if not shown:
        what = "There are no finished runs in this directory yet"
        notes.append(f"{what}: only the paper's numbers are shown.")
    if failed := [run for run in every if run.record["status"] != "ok"]:
        reasons = (f"{run.spec} ({run.record['reason']})" for run in failed)
        what = f"{count(failed, 'run')} failed, left out of all means and tests"
        notes.append(f"{what}: {few(reasons)}.")
    return Results(store, tuple(protocols), groups, tuple(good), tuple(notes))


def by_split(runs: Iterable[Run], metric: str) -> dict[int, float]:
    """A metric by split, averaged over the seeds of a split."""
    values: dict[int, list[float]] = {}
    for run in runs:
        if (value := run.record.get(metric)) is not None:
            values.setdefault(run.spec.split, []).append(value)
    return {split: math.fsum(v) / len(v) for split, v in sorted(values.items())}


def count(things: Sized, noun: str) -> str:
    """How many things there are: ``1 run``, ``2 runs``."""
    return f"{len(things)} {noun}{'s' * (len(things) != 1)}"


def few(texts: Iterable[str], most: int = 8) -> str:
    """The first of the texts, and how many more there are."""
    items = list(texts)
    rest = [f"and {len(items) - most} more"] if len(items) > most else []
    return ", ".join(items[:most] + rest)


def grouped(runs: Iterable[Run]) -> dict[Cell, list[Group]]:
    """Runs that may be averaged, by cell: groups of the same settings, those with most splits
    first; of as many splits those with the usual number of inducing points, since others are for
    comparison; of those the newest."""
    found: dict[Cell, dict[str, list[Run]]] = {}
    for run in runs:
        cell = run.spec.protocol, run.spec.dataset, run.spec.process, run.spec.depth
        found.setdefault(cell, {}).setdefault(_version(run), []).append(run)
    return {
        cell: sorted(map(tuple, versions.values()), key=_weight, reverse=True)
        for cell, versions in found.items()
    }


def _version(run: Run) -> str:
    return json.dumps(run.settings, sort_keys=True)


def _weight(group: Sequence[Run]) -> tuple[int, bool, str]:
    newest = max(str(run.record.get("finished_at", "")) for run in group)
    usual = group[0].settings["num_inducing"] == model_defaults()["num_inducing"]
    return len({run.spec.split for run in group}), usual, newest
