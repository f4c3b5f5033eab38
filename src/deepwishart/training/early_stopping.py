"""When to stop before the last step, and whether a run has come to its end."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deepwishart._support.arguments import number, whole_number
from deepwishart.training.history import History

_BLOCK = 10  # steps averaged before a line is fitted: neighbours are alike


@dataclass(frozen=True)
class Plateau:
    r"""Whether more steps at the present learning rate would pay: with the slope :math:`b` of a
    line through the second half of the bounds so far, its standard error :math:`s` and :math:`T`
    steps left at that rate, they would not if :math:`(b + 2 s)\, T < \delta`.

    Looked at every so many steps, after KL annealing. :func:`deepwishart.training.train` then
    lets the learning rate fall as the protocol would have done later, and ends with it: the bound
    rises once more while the rate falls, which stopping at once would give away.

    Args:
        tolerance: rise :math:`\delta` of the bound, per data point, that is not worth the steps.
        every: steps between looks.

    >>> history = History()
    >>> for step in range(200):
    ...     history.append(step, -math.exp(-step / 10), 1.0, 1e-2, 0.3, 0.0)
    >>> Plateau().reached(history, 0, steps_left=1_000)
    True
    """

    tolerance: float = 3e-3
    every: int = 20

    def __post_init__(self) -> None:
        number("tolerance", self.tolerance)
        whole_number("every", self.every)

    def reached(self, history: History, first: int, steps_left: int) -> bool:
        """Whether the bounds from entry ``first`` of the history on have stopped rising."""
        if (len(history) - first) % self.every:
            return False
        slope = _slope(_settled(history, first))
        return slope is not None and bool((slope[0] + 2.0 * slope[1]) * steps_left < self.tolerance)


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
    slope = _slope(_settled(history, first, first + fast))
    if slope is None or (slope[0] - 2.0 * slope[1]) * fast < least:
        return None
    return float(slope[0] * fast)


def _settled(history: History, first: int, last: int | None = None) -> np.ndarray:
    """The second half of the bounds since annealing."""
    end = len(history) if last is None else last
    weights = np.array(history.kl_weight[first:end])
    bounds = np.array(history.elbo[first:end])[int((weights < 1.0).sum()) :]
    return bounds[len(bounds) // 2 :]


def _slope(bounds: np.ndarray) -> tuple[float, float] | None:
    """Slope per step, and its standard error; ``None`` for too few steps."""
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
