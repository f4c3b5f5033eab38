"""A sweep as one sees it: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deepwishart.reproduction.sweeps.engines.events import (
    Broken,
    Event,
    Finished,
    Lost,
    Started,
    Stepped,
)
from deepwishart.reproduction.sweeps.forecast import Forecast, expected_seconds
from deepwishart.reproduction.sweeps.spec import RunSpec

__all__ = ["SweepProgress", "duration"]


class SweepProgress:
    """Follows a sweep's events. A context manager, to be called with each event.

    Args:
        specs: the runs that are to be done.
        records: finished runs, to forecast from.
        num_workers: number of runs in flight at a time.
        console: where to write; standard error if ``None``. On a terminal a table of the runs
            in flight is kept up to date there; elsewhere each end of a run is one line.

    >>> import io
    >>> spec, lines = RunSpec("yacht", 0, "dwp", 2), io.StringIO()
    >>> with SweepProgress([spec], {}, 1, Console(file=lines, width=100)) as progress:
    ...     progress(Started(spec, "worker 0"))
    ...     progress(Broken(spec, "OSError: no space left on device"))
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
        self._waiting = dict.fromkeys(specs)
        self._total, self._done, self._failed = len(specs), 0, 0
        self._flights: dict[RunSpec, Stepped] = {}
        self._forecast = Forecast(records)
        self._num_workers = num_workers
        self._began = time.monotonic()
        self._lock = threading.Lock()  # a thread of its own redraws the table
        self._live: Any = nullcontext()
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, get_renderable=self.table, refresh_per_second=2
            )

    def __enter__(self) -> SweepProgress:
        self._live.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self._live.__exit__(*details)

    def __call__(self, event: Event) -> None:
        """Take notice of an event."""
        with self._lock:
            line = self._note(event)
        # Outside the lock: drawing takes the console's lock first and this one second.
        if line is not None:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def table(self) -> Group:
        """The runs in flight, and a line about the whole sweep."""
        table = Table(box=None, pad_edge=False)
        for heading in ("run", "step", "ELBO", "elapsed", "left"):
            table.add_column(heading, justify="left" if heading == "run" else "right")
        with self._lock:
            for spec, flight in self._flights.items():
                expected = expected_seconds(flight)
                table.add_row(
                    str(spec),
                    f"{flight.step}/{flight.total}" if flight.total else "starting",
                    f"{flight.elbo:.3f}" if flight.total else "",
                    duration(flight.seconds),
                    duration(None if expected is None else expected - flight.seconds),
                )
            failed = [f"{self._failed} failed"] if self._failed else []
            summary = [
                f"{self._done} of {self._total} runs done",
                f"{len(self._flights)} in flight",
                *failed,
                f"{duration(time.monotonic() - self._began)} elapsed",
                f"{self._left()} left",
            ]
            return Group(table, Text(", ".join(summary)))

    def _note(self, event: Event) -> str | None:
        """Take notice of an event, and say what is worth a line."""
        spec = event.spec
        if isinstance(event, Stepped):
            self._flights[spec] = event
            return None
        if isinstance(event, Started):
            self._waiting.pop(spec, None)
            self._flights[spec] = Stepped(spec, 0, 0, 0.0, 0.0)
            return None if self._console.is_terminal else f"started {spec} ({event.where})"
        self._flights.pop(spec, None)
        if isinstance(event, Lost):
            self._waiting[spec] = None
            return f"{spec}: {event.reason}; trying again"
        self._waiting.pop(spec, None)
        self._done += 1
        return f"[{self._done}/{self._total}] {spec}: {self._conclude(event)}"

    def _conclude(self, event: Finished | Broken) -> str:
        """How a run ended, in words, and the state of the sweep after it."""
        if isinstance(event, Broken):
            self._failed += 1
            return f"could not be done: {event.reason}"
        record = event.record
        self._forecast.learn(event.spec, record)
        if record["status"] != "ok":
            self._failed += 1
            return f"failed: {record['reason']}"
        return (
            f"ELBO {record['elbo']:.3f}, test log likelihood {record['test_log_likelihood']:.3f}, "
            f"{duration(record['seconds'])}; {self._left()} left"
        )

    def _left(self) -> str:
        flights = self._flights.values()
        return duration(self._forecast.seconds_left(self._waiting, flights, self._num_workers))


def duration(seconds: float | None) -> str:
    """A time for people.

    >>> duration(7.4), duration(64), duration(3 * 3600 + 125), duration(200_000), duration(None)
    ('7 s', '1 min 04 s', '3 h 02 min', '2 d 07 h', '?')
    """
    if seconds is None or not math.isfinite(seconds):
        return "?"
    whole = max(0, round(seconds))
    units = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))
    for size, unit, small, name in units:
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // small:02d} {name}"
    return f"{whole} s"
