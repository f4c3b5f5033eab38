"""What an engine reports while it carries out runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, Protocol

from deepwishart.reproduction.sweeps.spec import RunSpec

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


Event = Started | Stepped | Finished | Lost | Broken


class Engine(Protocol):
    """Carries out runs somewhere, and reports what happens until all have finished or broken."""

    @property
    def num_workers(self) -> int:
        """Number of runs in flight at a time."""
        ...

    def run(self, specs: Sequence[RunSpec]) -> Generator[Event, None, None]:
        """Carry out all runs; closing the iterator stops those in flight."""
        ...


def count_loss(losses: Counter[RunSpec], spec: RunSpec, reason: str) -> Lost | Broken:
    """What to report of a loss: ``Lost`` if the run is to be tried again, but one that takes its
    worker down every time must not do so for ever."""
    losses[spec] += 1
    if losses[spec] < _MAX_LOSSES:
        return Lost(spec, reason)
    return Broken(spec, f"{reason} ({_MAX_LOSSES} times in all)")
