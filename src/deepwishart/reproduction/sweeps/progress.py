"""A sweep as one sees it: a bar for each run in flight on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rich import progress
from rich.console import Console

from deepwishart.reproduction.sweeps import engine as events
from deepwishart.reproduction.sweeps.spec import RunSpec

_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


class SweepProgress:
    """Follows a sweep's events. A context manager, to be called with each event.

    The time that is left is forecast from finished runs: each run takes as long as those of its
    kind did, and a kind never seen as long as the average of the others.

    Args:
        specs: the runs that are to be done, ``num_workers`` at a time.
        records: finished runs, to forecast from.
        console: where to write; standard error if ``None``. On a terminal there are bars for the
            runs in flight; elsewhere each end of a run is one line.

    >>> import io
    >>> spec, lines = RunSpec("yacht", 0, "dwp", 2), io.StringIO()
    >>> with SweepProgress([spec], {}, 1, Console(file=lines, width=100)) as follow:
    ...     follow(events.Started(spec, "worker 0"))
    ...     follow(events.Broken(spec, "OSError: no space left on device"))
    >>> print(lines.getvalue().splitlines()[-1])
    [1/1] yacht split 0 dwp depth 2: could not be done: OSError: no space left on device
    """

    def __init__(
        self,
        specs: Sequence[RunSpec],
        records: Mapping[RunSpec, Mapping[str, Any]],
        num_workers: int,
        console: Console | None = None,
    ) -> None:
        self._console = console or Console(stderr=True)
        self._to_do = dict.fromkeys(specs)
        self._total, self._num_workers = len(specs), num_workers
        self._seconds: dict[tuple[Any, ...], list[float]] = defaultdict(list)
        for spec, record in records.items():
            self._learn(spec, record)
        self._bars = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[elbo]}"),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._whole = self._bars.add_task("runs", total=len(specs), elbo="")
        self._flights: dict[RunSpec, progress.TaskID] = {}

    def __enter__(self) -> SweepProgress:
        self._bars.start()
        return self

    def __exit__(self, *details: Any) -> None:
        self._bars.stop()

    def __call__(self, event: events.Event) -> None:
        """Take notice of an event."""
        if (line := self._note(event)) is not None:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def seconds_left(self) -> float | None:
        """Seconds until everything is done, or ``None`` while nothing is known."""
        if not self._seconds:
            return None
        by_kind = {kind: fmean(seconds) for kind, seconds in self._seconds.items()}
        average = fmean(by_kind.values())
        total = sum(by_kind.get(spec.kind, average) for spec in self._to_do)
        return total / max(1, min(self._num_workers, len(self._to_do)))

    def _note(self, event: events.Event) -> str | None:
        """Take notice of an event, and say what is worth a line."""
        spec = event.spec
        if isinstance(event, events.Stepped):
            if spec in self._flights:  # or else late news of a run that was lost
                numbers: Any = {"completed": event.step, "total": event.total}
                self._bars.update(self._flights[spec], elbo=f"ELBO {event.elbo:.3f}", **numbers)
            return None
        if isinstance(event, events.Started):
            self._flights[spec] = self._bars.add_task(str(spec), total=None, elbo="")
            return None if self._console.is_terminal else f"started {spec} ({event.where})"
        if spec in self._flights:
            self._bars.remove_task(self._flights.pop(spec))
        if isinstance(event, events.Lost):
            return f"{spec}: {event.reason}; trying again"
        self._to_do.pop(spec, None)
        self._bars.advance(self._whole)
        return f"[{self._total - len(self._to_do)}/{self._total}] {spec}: {self._conclude(event)}"

    def _conclude(self, event: events.Finished | events.Broken) -> str:
        """How a run ended, in words, and the state of the sweep after it."""
        if isinstance(event, events.Broken):
            return f"could not be done: {event.reason}"
        record = event.record
        self._learn(event.spec, record)
        if record["status"] != "ok":
            return f"failed: {record['reason']}"
        return (
            f"ELBO {record['elbo']:.3f}, test log likelihood {record['test_log_likelihood']:.3f}, "
            f"{duration(record['seconds'])}; {duration(self.seconds_left())} left"
        )

    def _learn(self, spec: RunSpec, record: Mapping[str, Any]) -> None:
        """Take a finished run into account. One that failed may have ended early."""
        if record["status"] == "ok":
            evaluation = record.get("seconds_evaluation", 0.0)
            self._seconds[spec.kind].append(record["seconds"] + evaluation)


def duration(seconds: float | None) -> str:
    """A time for people.

    >>> duration(7.4), duration(64), duration(3 * 3600 + 125), duration(200_000), duration(None)
    ('7 s', '1 min 04 s', '3 h 02 min', '2 d 07 h', '?')
    """
    if seconds is None or not math.isfinite(seconds):
        return "?"
    whole = max(0, round(seconds))
    for size, unit, small, name in _UNITS:
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // small:02d} {name}"
    return f"{whole} s"
