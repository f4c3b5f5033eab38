"""When to stop before the last step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from deepwishart.training.history import History


@dataclass(frozen=True)
class PlateauStopper:
    r"""Stop once the ELBO, averaged over a window of w steps, no longer rises:

    .. math:: \frac1w \sum_{s=t-w+1}^{t} \text{ELBO}_s
              - \frac1w \sum_{s=t-2w+1}^{t-w} \text{ELBO}_s < \delta.

    Looked at once per window, and only where both windows lie after KL annealing, when values are
    comparable. Meant for ``should_stop=`` of :func:`deepwishart.training.train`.

    Args:
        window: number of steps w.
        min_delta: smallest rise :math:`\delta`, per data point, that is worth another window.

    >>> history = History()
    >>> for step in range(20):
    ...     history.append(step, min(step, 10) / 10, 1.0, 1e-2, 0.3, 0.0)
    >>> PlateauStopper(window=5, min_delta=1e-3)(history)
    True
    """

    window: int = 200
    min_delta: float = 1e-3

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window must be at least 1, got {self.window}.")
        if not math.isfinite(self.min_delta):
            raise ValueError(f"min_delta must be a finite number, got {self.min_delta}.")

    def __call__(self, history: History) -> bool:
        w = self.window
        if len(history) % w or len(history) < 2 * w or min(history.kl_weight[-2 * w :]) < 1.0:
            return False
        return fmean(history.elbo[-w:]) - fmean(history.elbo[-2 * w : -w]) < self.min_delta
