"""A live progress bar on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_REFRESH_SECONDS = 0.1


@dataclass(frozen=True)
class ProgressEvent:
    """One finished step of ``total``; the rest is what :class:`History` has for it."""

    step: int
    total: int
    elbo: float
    kl_weight: float
    learning_rate: float
    noise: float
    seconds: float


@contextmanager
def make_progress(
    verbose: int, total: int, label: str = "training", *, console: Console | None = None
) -> Iterator[Callable[[ProgressEvent], None]]:
    """A context that gives a callable for ``progress=`` of :func:`deepwishart.training.train`.

    On a terminal it shows ``label`` and a bar with ELBO, noise, steps per second and time left of
    ``total`` steps. With ``verbose=0``, or when standard error, or the ``console`` to draw on, is
    not a terminal, it writes nothing at all.

    >>> with make_progress(verbose=0, total=10) as progress:
    ...     progress(ProgressEvent(0, 10, -1.0, 1.0, 1e-2, 0.3, 0.1))
    """
    on_terminal = console.is_terminal if console is not None else sys.stderr.isatty()
    if verbose <= 0 or not on_terminal:
        yield lambda event: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console or Console(stderr=True)) as bars:
        task = bars.add_task(label, total=total, numbers="")
        drawn_at, first = 0.0, (0, 0.0)

        def show(event: ProgressEvent) -> None:
            nonlocal drawn_at, first
            now = time.monotonic()
            # Speed counts from the first event: a resumed run starts with many steps done.
            first = first if drawn_at else (event.step, now)
            # Drawing costs more than a step's bookkeeping.
            if now - drawn_at < _REFRESH_SECONDS and event.step + 1 < event.total:
                return
            drawn_at, elapsed = now, now - first[1]
            speed = f"{(event.step - first[0]) / elapsed:.1f}" if elapsed > 0 else "-"
            noise = f"  noise {event.noise:.3g}" if event.noise else ""  # classes have none
            numbers = f"ELBO {event.elbo:.3f}{noise}  {speed} steps/s"
            bars.update(task, completed=event.step + 1, total=event.total, numbers=numbers)

        yield show
