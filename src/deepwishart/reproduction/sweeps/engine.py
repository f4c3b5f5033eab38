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


class Finished(NamedTuple):
    """A run has come to its end, numerical failure included, with a record and a training curve."""

    spec: RunSpec
    record: dict[str, Any]
    curve: dict[str, list[float]]

    def __str__(self) -> str:
        if self.record["status"] != "ok":
            return f"{self.spec}: failed: {self.record['reason']}"
        names = {"ELBO": "elbo", "test log likelihood": "test_log_likelihood"}
        numbers = [f"{words} {self.record[name]:.3f}" for words, name in names.items()]
        return f"{self.spec}: {', '.join(numbers)}, {self.record['seconds']:,.0f} s"


class Lost(NamedTuple):
    """The worker or node of a run died; the run will be tried again."""

    spec: RunSpec
    reason: str

    def __str__(self) -> str:
        return f"{self.spec}: {self.reason}; trying again"


class Broken(NamedTuple):
    """A run could not be carried out for reasons outside its mathematics; it has no record."""

    spec: RunSpec
    reason: str

    def __str__(self) -> str:
        return f"{self.spec}: could not be done: {self.reason}"


Event = Finished | Lost | Broken


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
        flights: dict[Future[Finished | Broken], RunSpec] = {}
        try:
            while waiting or flights:
                while waiting and len(flights) < self._num_workers:
                    spec = waiting.popleft()
                    flights[self._begin(spec)] = spec
                for flight in wait(flights, return_when=FIRST_COMPLETED).done:
                    spec = flights.pop(flight)
                    event = self._end(flight, spec)
                    if isinstance(event, Lost):
                        losses[spec] += 1
                        if losses[spec] < _MAX_LOSSES:
                            waiting.append(spec)
                        else:  # it takes its worker down every time
                            event = Broken(spec, f"{event.reason} ({_MAX_LOSSES} times in all)")
                    yield event
        finally:
            self._close()

    @abstractmethod
    def _begin(self, spec: RunSpec) -> Future[Finished | Broken]:
        """Give a run away, to be done by :func:`carry_out`."""

    @abstractmethod
    def _end(self, flight: Future[Finished | Broken], spec: RunSpec) -> Event:
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
) -> Finished | Broken:
    """A run from beginning to end, in a process or on a node of its own."""
    from deepwishart.reproduction.sweeps.run import run

    try:
        return Finished(spec, *run(spec, settings, dataset, checkpoint_dir, execution=execution))
    except Exception as error:
        traceback.print_exc()
        return Broken(spec, f"{type(error).__name__}: {error}")


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
            if isinstance(event, Finished):
                store.add(event.record, event.curve)
            elif isinstance(event, Broken):
                broken[event.spec] = event.reason
            notify(event)
    records = store.records()
    ended = {spec: records[spec] for spec in specs if spec in records}
    failed = {spec: each["reason"] for spec, each in ended.items() if each["status"] != "ok"}
    return {**failed, **broken}
