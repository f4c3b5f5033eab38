"""Training curves of runs: kept in few points, and asked when they reached a bound."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from deepwishart.training import History

_POINTS = 400
_WINDOW = 8  # of those points: 2% of a run


def thin(history: History, num_points: int = _POINTS) -> dict[str, list[float]]:
    """A training curve of at most ``num_points`` points.

    Steps are grouped; each point has its group's last step and time, and its mean ELBO.

    >>> history = History(
    ...     step=[0, 1, 2, 3], elbo=[0.0, 1.0, 2.0, 4.0], seconds=[1.0, 2.0, 3.0, 4.0]
    ... )
    >>> thin(history, 2)
    {'step': [1, 3], 'elbo': [0.5, 3.0], 'seconds': [2.0, 4.0]}
    """
    count = len(history)
    ends = np.unique(np.linspace(0, count, min(num_points, count) + 1).astype(int))
    groups = list(itertools.pairwise(ends))
    return {
        "step": [history.step[end - 1] for _, end in groups],
        "elbo": [round(float(np.mean(history.elbo[begin:end])), 6) for begin, end in groups],
        "seconds": [round(history.seconds[end - 1], 3) for _, end in groups],
    }


def steps_to(bound: float, curve: Mapping[str, Sequence[float]], annealing: int = 0) -> int | None:
    """Training steps until the curve (of :func:`thin`), averaged over the last 2% of a run's steps,
    was at ``bound`` or above; ``None`` if it never was. In the first ``annealing`` steps the
    objective is no bound, since the KL term is still fading in."""
    points = [
        each for each in zip(curve["step"], curve["elbo"], strict=True) if each[0] >= annealing
    ]
    for window in zip(*(points[start:] for start in range(_WINDOW)), strict=False):
        if sum(elbo for _, elbo in window) / _WINDOW >= bound:
            return int(window[-1][0]) + 1
    return None
