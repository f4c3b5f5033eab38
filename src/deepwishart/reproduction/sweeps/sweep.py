"""A sweep: what is to be done, done by an engine, written down as it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from deepwishart.reproduction.sweeps.engine import Broken, Engine, Event, Finished
from deepwishart.reproduction.sweeps.spec import RunSpec
from deepwishart.reproduction.sweeps.store import ResultsStore


@dataclass
class SweepOutcome:
    """How the runs of a sweep ended: those with results; those that failed numerically, which have
    records too; and those that could not be carried out, which have none. The last two with
    reasons."""

    ok: list[RunSpec] = field(default_factory=list)
    failed: dict[RunSpec, str] = field(default_factory=dict)
    broken: dict[RunSpec, str] = field(default_factory=dict)

    @property
    def success(self) -> bool:
        """All runs have results."""
        return not self.failed and not self.broken

    def count(self, spec: RunSpec, record: dict[str, Any]) -> None:
        """Count a finished run."""
        if record["status"] == "ok":
            self.ok.append(spec)
        else:
            self.failed[spec] = record["reason"]


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


def run_sweep(
    specs: Sequence[RunSpec], store: ResultsStore, engine: Engine, notify: Callable[[Event], None]
) -> SweepOutcome:
    """Carry out the runs that are still to be done, and write each down as it finishes.

    Failed runs among ``specs`` are left as they are. The store has to be open for writing, see
    :meth:`deepwishart.reproduction.sweeps.ResultsStore.writing`; ``notify`` is called with every
    event, after it has been dealt with.

    Returns:
        How all of ``specs``, finished ones included, ended, in this sweep or in an earlier one.

    >>> import tempfile
    >>> from deepwishart.reproduction.sweeps import LocalEngine, Settings
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     store = ResultsStore(directory)
    ...     with store.writing():
    ...         run_sweep([], store, LocalEngine(Settings(), store), print).success
    True
    """
    outcome = SweepOutcome()
    for spec, record in store.records().items():
        if spec in specs:
            outcome.count(spec, record)
    with closing(engine.run(pending(specs, store))) as events:
        for event in events:
            if isinstance(event, Finished):
                store.add(event.record, event.curve)
                outcome.count(event.spec, event.record)
            elif isinstance(event, Broken):
                outcome.broken[event.spec] = event.reason
            notify(event)
    return outcome
