"""What happened during training, step by step: the record, the bar, and whether it was enough."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from deepwishart._support.arguments import whole_number

COLUMNS = ("step", "elbo", "kl_weight", "learning_rate", "noise", "seconds")
STOPPED_BY = (None, "max_iter", "early_stopping", "converged", "interrupt", "error")
_LOOK_EVERY, _WORTH = 20, 3e-3  # steps, and the rise of the bound that is worth the rest of them
_BLOCK = 10  # steps averaged before a line is fitted: neighbours are alike


@dataclass
class History:
    """One entry per finished step in each of six lists.

    Args:
        step: number of the step, from 0.
        elbo: objective of the step: ELBO per data point with the step's ``kl_weight``, estimated
            from the step's batch and samples.
        kl_weight: factor on the KL term.
        learning_rate: Adam's learning rate.
        noise: noise standard deviation after the step, averaged over target columns.
        seconds: training time since step 0, time before a resume included.
        stopped_by: why training ended: ``"max_iter"`` (all steps done), ``"early_stopping"``,
            ``"converged"`` (L-BFGS has found a maximum), ``"interrupt"`` (Ctrl-C), ``"error"`` (a
            :class:`~deepwishart.training.TrainingError`), or ``None`` while it runs.
        recoveries: steps that failed and were tried again from an earlier state.
        tried: models that were trained before one was kept, each with its ``kernel``,
            ``likelihood``, ``depth``, ``num_inducing``, ``elbo``, ``standard_error``, ``steps`` and
            ``seconds``.

    >>> history = History()
    >>> for step in range(4):
    ...     history.append(step, float(step), 1.0, 1e-2, 0.3, 0.1 * step)
    >>> len(history), history.elbo_smoothed(2)
    (4, [0.0, 0.5, 1.5, 2.5])
    """

    step: list[int] = field(default_factory=list)
    elbo: list[float] = field(default_factory=list)
    kl_weight: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stopped_by: str | None = None
    recoveries: list[int] = field(default_factory=list)
    tried: list[dict[str, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.step)

    def append(self, *row: float) -> None:
        """Add one finished step: a number for each of the six lists, in their order."""
        for name, value in zip(COLUMNS, row, strict=True):
            getattr(self, name).append(value)

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` steps."""
        for name in COLUMNS:
            del getattr(self, name)[length:]

    def elbo_smoothed(self, window: int) -> list[float]:
        """ELBO averaged over the last ``window`` steps (fewer at the start), one value per step."""
        whole_number("window", window)
        sums = [0.0, *itertools.accumulate(self.elbo)]
        ends = range(1, len(sums))
        return [(sums[end] - sums[max(end - window, 0)]) / min(window, end) for end in ends]

    def slope(self, first: int = 0, last: int | None = None) -> tuple[float, float] | None:
        """Rise of the bound per step, and its standard error, by a line through the second half of
        the entries from ``first`` to ``last`` that are past annealing; ``None`` for too few."""
        weights, bounds = np.array(self.kl_weight[first:last]), np.array(self.elbo[first:last])
        bounds = bounds[int((weights < 1.0).sum()) :]
        bounds = bounds[len(bounds) // 2 :]
        blocks = len(bounds) // _BLOCK
        if blocks < 4:
            return None
        means = bounds[len(bounds) - blocks * _BLOCK :].reshape(blocks, _BLOCK).mean(-1)
        x = np.arange(blocks) - 0.5 * (blocks - 1)
        spread = (x**2).sum()
        slope = (x * means).sum() / spread
        residual = means - means.mean() - slope * x
        error = math.sqrt((residual**2).sum() / (blocks - 2) / spread)
        return float(slope) / _BLOCK, error / _BLOCK

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> History:
        """The inverse of :meth:`to_dict`."""
        lists = {name: list(values.get(name, [])) for name in (*COLUMNS, "recoveries", "tried")}
        stopped_by = values.get("stopped_by")
        if len({len(lists[name]) for name in COLUMNS}) > 1 or stopped_by not in STOPPED_BY:
            raise ValueError(
                f"This is not a training history: it has lists {', '.join(COLUMNS)} of one length, "
                f"and stopped_by is one of {', '.join(map(str, STOPPED_BY))}."
            )
        return cls(**lists, stopped_by=stopped_by)


class ProgressEvent(NamedTuple):
    """Step ``step``, from 0, of ``total`` is finished, and the last entry of ``history``."""

    step: int
    total: int
    history: History


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f} steps/s" if task.speed else "")


@contextmanager
def make_progress(
    verbose: int, total: int, label: str = "training", *, console: Console | None = None
) -> Iterator[Callable[[ProgressEvent], None]]:
    """A context that gives a callable for ``progress=`` of :func:`deepwishart.training.train`.

    On a terminal it shows ``label`` and a bar with ELBO, noise, steps per second and time left of
    ``total`` steps. With ``verbose=0``, or when standard error, or the ``console`` to draw on, is
    not a terminal, it writes nothing at all.

    >>> with make_progress(verbose=0, total=10) as progress:
    ...     progress(ProgressEvent(0, 10, History(elbo=[-1.0], noise=[0.3])))
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
        _Speed(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console or Console(stderr=True)) as bars:
        bar = bars.add_task(label, total=total, numbers="")

        def show(event: ProgressEvent) -> None:
            if not bars.tasks[bar].completed:  # a resumed run starts with many steps done
                bars.reset(bar, completed=event.step)
            noise = event.history.noise[-1]  # classes have none
            numbers = f"ELBO {event.history.elbo[-1]:.3f}" + (
                f"  noise {noise:.3g}" if noise else ""
            )
            bars.update(bar, completed=event.step + 1, total=event.total, numbers=numbers)

        yield show


def has_settled(history: History, first: int, steps_left: int) -> bool:
    r"""Whether the bounds from entry ``first`` of a history on have stopped rising: with the slope
    :math:`b` of a line through the second half of them, its standard error :math:`s` and :math:`T`
    ``steps_left`` at the present learning rate, whether :math:`(b + 2 s)\, T < 0.003` per data
    point. Looked at every 20 steps.

    >>> history = History()
    >>> for step in range(200):
    ...     history.append(step, 1.0 - 0.9**step, 1.0, 1e-2, 0.3, 0.0)
    >>> has_settled(history, first=0, steps_left=1_000)
    True
    """
    if (len(history) - first) % _LOOK_EVERY:
        return False
    slope = history.slope(first)
    return slope is not None and bool((slope[0] + 2.0 * slope[1]) * steps_left < _WORTH)


def still_rising(history: History, first: int = 0, *, least: float = 0.05) -> float | None:
    """By how much, per data point, the bound would have risen with as many steps again, if that is
    clearly more than ``least``; ``None`` if it is not, or the run is too short to tell.

    Only steps near the largest learning rate count: while it falls, the bound rises in any case.

    >>> history = History()
    >>> for step in range(200):
    ...     history.append(step, 0.01 * step, 1.0, 1e-2, 0.3, 0.0)
    >>> round(still_rising(history), 2)
    2.0
    """
    if history.stopped_by in ("early_stopping", "converged", "interrupt"):
        return None
    rates = np.array(history.learning_rate[first:])
    fast = int((rates >= 0.5 * rates.max()).sum()) if len(rates) else 0
    slope = history.slope(first, first + fast)
    if slope is None or (slope[0] - 2.0 * slope[1]) * fast < least:
        return None
    return float(slope[0] * fast)
