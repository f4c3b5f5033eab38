"""A sweep as one sees it: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
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
from deepwishart.reproduction.sweeps.forecast import Flight, Forecast
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
        self._flights: dict[RunSpec, Flight] = {}
        self._forecast = Forecast(records)
        self._num_workers = num_workers
        self._began = time.monotonic()
        self._lock = threading.Lock()  # a thread of its own redraws the table
        self._live = (
            Live(console=self._console, get_renderable=self.table, refresh_per_second=2)
            if self._console.is_terminal
            else None
        )

    def __enter__(self) -> SweepProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

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
                left = None if flight.expected is None else flight.expected - flight.seconds
                table.add_row(
                    str(spec),
                    f"{flight.step}/{flight.total}" if flight.total else "starting",
                    "" if flight.elbo is None else f"{flight.elbo:.3f}",
                    duration(flight.seconds),
                    duration(left),
                )
            return Group(table, Text(self._summary()))

    def _note(self, event: Event) -> str | None:
        """Take notice of an event, and say what is worth a line."""
        spec = event.spec
        if isinstance(event, Stepped):
            flight = self._flights.setdefault(spec, Flight(""))
            flight.step, flight.total = event.step, event.total
            flight.elbo, flight.seconds = event.elbo, event.seconds
            return None
        if isinstance(event, Started):
            self._waiting.pop(spec, None)
            self._flights[spec] = Flight(event.where)
            return f"started {spec} ({event.where})" if self._live is None else None
        self._flights.pop(spec, None)
        if isinstance(event, Lost):
            self._waiting[spec] = None
            return f"{spec}: {event.reason}; trying again"
        self._waiting.pop(spec, None)
        self._done += 1
        return f"[{self._done}/{self._total}] {spec}: {self._conclude(event)}"

    def _summary(self) -> str:
        """One line about the whole sweep."""
        left = self._forecast.seconds_left(self._waiting, self._flights, self._num_workers)
        parts = [
            f"{self._done} of {self._total} runs done",
            f"{len(self._flights)} in flight",
            *([f"{self._failed} failed"] if self._failed else []),
            f"{duration(time.monotonic() - self._began)} elapsed",
            f"{duration(left)} left",
        ]
        return ", ".join(parts)

    def _conclude(self, event: Finished | Broken) -> str:
        """How a run ended, in words, and the state of the sweep after it."""
        if isinstance(event, Broken):
            self._failed += 1
            return f"could not be done: {event.reason}"
        self._forecast.learn(event.spec, event.record)
        if event.record["status"] != "ok":
            self._failed += 1
            return f"failed: {event.record['reason']}"
        left = self._forecast.seconds_left(self._waiting, self._flights, self._num_workers)
        return (
            f"ELBO {event.record['elbo']:.3f}, test log likelihood "
            f"{event.record['test_log_likelihood']:.3f}, {duration(event.record['seconds'])}; "
            f"{duration(left)} left"
        )


def duration(seconds: float | None) -> str:
    """A time for people.

    >>> duration(7.4), duration(64), duration(3 * 3600 + 125), duration(200_000), duration(None)
    ('7 s', '1 min 04 s', '3 h 02 min', '2 d 07 h', '?')
    """
    if seconds is None or not math.isfinite(seconds):
        return "?"
    whole = max(0, round(seconds))
    for size, unit, small, name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // small:02d} {name}"
    return f"{whole} s"
