"""Engines: where the runs of a sweep are carried out, and what is heard of them."""

from __future__ import annotations

import math
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings
from deepwishart.reproduction.sweeps.store import ResultsStore

if TYPE_CHECKING:
    from deepwishart.reproduction.datasets import Dataset
    from deepwishart.training import ProgressEvent

_POLL_SECONDS = 0.5
_MAX_LOSSES = 3


class Started(NamedTuple):
    """A run has begun, or begun again."""

    spec: RunSpec
    where: str


class Stepped(NamedTuple):
    """Progress of a run in flight: ``step`` of ``total`` steps done in ``seconds``."""

    spec: RunSpec
    step: int
    total: int
    elbo: float
    seconds: float


class Finished(NamedTuple):
    """A run has come to its end, numerical failure included, with a record and a training curve."""

    spec: RunSpec
    record: dict[str, Any]
    curve: dict[str, list[float]]


class Lost(NamedTuple):
    """The worker or node of a run died; the run will be tried again."""

    spec: RunSpec
    reason: str


class Broken(NamedTuple):
    """A run could not be carried out for reasons outside its mathematics; it has no record."""

    spec: RunSpec
    reason: str


News = Started | Stepped
Event = News | Finished | Lost | Broken


class Board(Protocol):
    """Where news arrive, such as a queue."""

    def get_nowait(self) -> News:
        """The next one; an error if there is none."""
        ...


class Engine(ABC):
    """Carries out runs somewhere, and reports what happens until all have finished or broken.

    Args:
        settings, execution: what all runs have in common.
        store: where runs keep their checkpoints.
    """

    _most: float = math.inf  # runs in flight

    def __init__(
        self, settings: Settings, store: ResultsStore, execution: Execution | None = None
    ) -> None:
        self._settings, self._store = settings, store
        self._execution = execution or Execution()

    @property
    @abstractmethod
    def num_workers(self) -> int:
        """Number of runs in flight at a time."""

    def run(self, specs: Sequence[RunSpec]) -> Generator[Event, None, None]:
        """Carry out all runs; closing the iterator stops those in flight."""
        waiting, losses = deque(specs), Counter[RunSpec]()
        flights: dict[Future[Finished | Broken], RunSpec] = {}
        board = self._open()
        try:
            while waiting or flights:
                while waiting and len(flights) < self._most:
                    spec = waiting.popleft()
                    flights[self._begin(spec)] = spec
                ended = wait(flights, _POLL_SECONDS, return_when=FIRST_COMPLETED).done
                in_flight = set(flights.values())
                # Late news of runs that are over are of no use.
                yield from (event for event in _take_all(board) if event.spec in in_flight)
                for flight in ended:
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
    def _open(self) -> Board:
        """Get ready; where news of runs in flight arrive."""

    @abstractmethod
    def _begin(self, spec: RunSpec) -> Future[Finished | Broken]:
        """Give a run away."""

    @abstractmethod
    def _end(self, flight: Future[Finished | Broken], spec: RunSpec) -> Finished | Lost | Broken:
        """What has become of it."""

    @abstractmethod
    def _close(self) -> None:
        """Stop what is in flight."""


def _take_all(board: Board) -> Iterator[News]:
    with suppress(Exception):  # none left, or its node is gone: a sweep goes on without news
        while True:
            yield board.get_nowait()


def carry_out(
    spec: RunSpec,
    settings: Settings,
    dataset: Dataset,
    checkpoint_dir: Path,
    execution: Execution,
    where: str,
    post: Callable[[News], object],
) -> Finished | Broken:
    """A run from beginning to end, in a process or on a node of its own, which posts where it is
    and now and then how far."""
    from deepwishart.reproduction.sweeps.run import run

    posted = time.monotonic()

    def report(event: ProgressEvent) -> None:
        nonlocal posted
        if time.monotonic() - posted >= _POLL_SECONDS:
            posted = time.monotonic()
            with suppress(OSError, EOFError):  # nobody listens any more
                post(Stepped(spec, event.step + 1, event.total, event.elbo, event.seconds))

    try:
        with suppress(OSError, EOFError):
            post(Started(spec, where))
        outcome = run(spec, settings, dataset, checkpoint_dir, execution=execution, progress=report)
    except Exception as error:
        traceback.print_exc()
        return Broken(spec, f"{type(error).__name__}: {error}")
    return Finished(spec, *outcome)
