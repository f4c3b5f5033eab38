"""How long a sweep will take, from how long its runs have taken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from deepwishart.reproduction.sweeps.spec import RunSpec

__all__ = ["Flight", "Forecast"]


@dataclass
class Flight:
    """A run in flight: ``step`` of ``total`` steps done in ``seconds`` of training."""

    where: str
    step: int = 0
    total: int = 0
    elbo: float | None = None
    seconds: float = 0.0

    @property
    def expected(self) -> float | None:
        """Seconds that the whole run will take, at its present speed."""
        return self.seconds / self.step * self.total if self.step else None


class Forecast:
    """Remaining time: each run takes as long as finished runs of its kind, or as one in flight
    seems to; a kind never seen takes as long as the average of the others.

    Args:
        records: finished runs, for their ``seconds``.

    >>> spec = RunSpec("yacht", 0, "dwp", 2)
    >>> forecast = Forecast({spec: {"status": "ok", "seconds": 60.0}})
    >>> forecast.seconds_left([RunSpec("yacht", 1, "dwp", 2)] * 4, {}, num_workers=2)
    120.0
    """

    def __init__(self, records: Mapping[RunSpec, Mapping[str, Any]]) -> None:
        self._known: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        for spec, record in records.items():
            self.learn(spec, record)

    def learn(self, spec: RunSpec, record: Mapping[str, Any]) -> None:
        """Take a finished run into account. One that failed may have ended early."""
        if record["status"] == "ok":
            seconds = record["seconds"] + record.get("seconds_evaluation", 0.0)
            self._known[spec.kind].append(seconds)

    def seconds_left(
        self, waiting: Iterable[RunSpec], flights: Mapping[RunSpec, Flight], num_workers: int
    ) -> float | None:
        """Seconds until everything is done, or ``None`` while nothing is known."""
        expected = {kind: fmean(seconds) for kind, seconds in self._known.items()}
        for spec, flight in flights.items():
            if flight.expected is not None:
                expected.setdefault(spec.kind, flight.expected)
        if not expected:
            return None
        average = fmean(expected.values())
        in_flight = [
            max((flight.expected or expected.get(spec.kind, average)) - flight.seconds, 0.0)
            for spec, flight in flights.items()
        ]
        to_come = [expected.get(spec.kind, average) for spec in waiting]
        busy = max(1, min(num_workers, len(in_flight) + len(to_come)))
        return max(max(in_flight, default=0.0), (sum(in_flight) + sum(to_come)) / busy)
