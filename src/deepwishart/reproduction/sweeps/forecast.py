"""How long a sweep will take, from how long its runs have taken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from deepwishart.reproduction.sweeps.engines.events import Stepped
from deepwishart.reproduction.sweeps.spec import RunSpec

__all__ = ["Forecast", "expected_seconds"]


def expected_seconds(flight: Stepped) -> float | None:
    """Seconds that a whole run will take, at its present speed."""
    return flight.seconds / flight.step * flight.total if flight.step else None


class Forecast:
    """Remaining time: each run takes as long as finished runs of its kind, or as one in flight
    seems to; a kind never seen takes as long as the average of the others.

    Args:
        records: finished runs, for their ``seconds``.

    >>> spec = RunSpec("yacht", 0, "dwp", 2)
    >>> forecast = Forecast({spec: {"status": "ok", "seconds": 60.0}})
    >>> forecast.seconds_left([RunSpec("yacht", 1, "dwp", 2)] * 4, [], num_workers=2)
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
        self, waiting: Iterable[RunSpec], flights: Iterable[Stepped], num_workers: int
    ) -> float | None:
        """Seconds until everything is done, or ``None`` while nothing is known."""
        by_kind = {kind: fmean(seconds) for kind, seconds in self._known.items()}
        speeds = {flight: expected_seconds(flight) for flight in flights}
        for flight, seconds in speeds.items():
            if seconds is not None:
                by_kind.setdefault(flight.spec.kind, seconds)
        if not by_kind:
            return None
        average = fmean(by_kind.values())
        in_flight = [
            max((seconds or by_kind.get(flight.spec.kind, average)) - flight.seconds, 0.0)
            for flight, seconds in speeds.items()
        ]
        to_come = [by_kind.get(spec.kind, average) for spec in waiting]
        busy = max(1, min(num_workers, len(in_flight) + len(to_come)))
        return max([*in_flight, (sum(in_flight) + sum(to_come)) / busy])
