"""Engines: where the runs of a sweep are carried out, and what becomes of them."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings
from deepwishart.reproduction.sweeps.store import ResultsStore, pending

if TYPE_CHECKING:
    from deepwishart.reproduction.datasets import Dataset

_MAX_LOSSES = 3


class Event(NamedTuple):
    """What has become of a run. Of one that has come to its end, numerical failure included, there
    are a record and a training curve; of others the reason: they could not be carried out, or their
    worker or node died, and they are tried ``again``."""

    spec: RunSpec
    record: dict[str, Any] | None = None
    curve: dict[str, list[float]] | None = None
    reason: str = ""
    again: bool = False

    def __str__(self) -> str:
        if self.record is None:
            said = (
                f"{self.reason}; trying again"
                if self.again
                else f"could not be done: {self.reason}"
            )
        elif self.record["status"] != "ok":
            said = f"failed: {self.record['reason']}"
        else:
            names = {"ELBO": "elbo", "test log likelihood": "test_log_likelihood"}
            numbers = [f"{words} {self.record[name]:.3f}" for words, name in names.items()]
            said = f"{', '.join(numbers)}, {self.record['seconds']:,.0f} s"
        return f"{self.spec}: {said}"


class Engine(ABC):
    """Carries out runs somewhere, and tells how they end.

    Args:
        settings, execution: what all runs have in common.
        store: where runs keep their checkpoints.
        datasets: data sets by name.
        num_workers: number of runs in flight at a time.
    """

    def __init__(
        self,
        settings: Settings,
        store: ResultsStore,
        datasets: Mapping[str, Dataset],
        *,
        num_workers: float = 1,
        execution: Execution | None = None,
    ) -> None:
        self._settings, self._store, self._datasets = settings, store, datasets
        self._num_workers, self._execution = num_workers, execution or Execution()

    def run(self, specs: Sequence[RunSpec]) -> Generator[Event, None, None]:
        """Carry out all runs; closing the iterator stops those in flight."""
        waiting, losses = deque(specs), Counter[RunSpec]()
        flights: dict[Future[Event], RunSpec] = {}
        try:
            while waiting or flights:
                while waiting and len(flights) < self._num_workers:
                    spec = waiting.popleft()
                    flights[self._begin(spec)] = spec
                for flight in wait(flights, return_when=FIRST_COMPLETED).done:
                    spec = flights.pop(flight)
                    event = self._end(flight, spec)
                    if event.again:
                        losses[spec] += 1
                        if losses[spec] < _MAX_LOSSES:
                            waiting.append(spec)
                        else:  # it takes its worker down every time
                            reason = f"{event.reason} ({_MAX_LOSSES} times in all)"
                            event = Event(spec, reason=reason)
                    yield event
        finally:
            self._close()

    @abstractmethod
    def _begin(self, spec: RunSpec) -> Future[Event]:
        """Give a run away, to be done by :func:`carry_out`."""

    @abstractmethod
    def _end(self, flight: Future[Event], spec: RunSpec) -> Event:
        """What has become of it."""

    @abstractmethod
    def _close(self) -> None:
        """Stop what is in flight."""


def carry_out(
    spec: RunSpec,
    settings: Settings,
    dataset: Dataset,
    checkpoint_dir: Path,
    execution: Execution,
) -> Event:
    """A run from beginning to end, in a process or on a node of its own."""
    from deepwishart.reproduction.sweeps.run import run

    try:
        return Event(spec, *run(spec, settings, dataset, checkpoint_dir, execution=execution))
    except Exception as error:
        traceback.print_exc()
        return Event(spec, reason=f"{type(error).__name__}: {error}")


def run_sweep(
    specs: Sequence[RunSpec],
    store: ResultsStore,
    engine: Engine,
    notify: Callable[[Event], object],
    *,
    retry_failed: bool = False,
) -> dict[RunSpec, str]:
    """Carry out the runs that are still to be done, and write each down as it finishes.

    The store has to be open for writing, see
    :meth:`deepwishart.reproduction.sweeps.ResultsStore.writing`; ``notify`` is called with every
    event, after it has been dealt with; ``retry_failed`` as in :func:`pending`.

    Returns:
        Those of ``specs`` that have no results, with reasons.

    >>> import tempfile
    >>> from deepwishart.reproduction.sweeps import LocalEngine, Settings
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     store = ResultsStore(directory)
    ...     with store.writing():
    ...         run_sweep([], store, LocalEngine(Settings(), store, {}), print)
    {}
    """
    broken: dict[RunSpec, str] = {}
    with closing(engine.run(pending(specs, store, retry_failed=retry_failed))) as events:
        for event in events:
            if event.record is not None:
                store.add(event.record, event.curve or {})
            elif not event.again:
                broken[event.spec] = event.reason
            notify(event)
    records = store.records()
    ended = {spec: records[spec] for spec in specs if spec in records}
    failed = {spec: each["reason"] for spec, each in ended.items() if each["status"] != "ok"}
    return {**failed, **broken}
