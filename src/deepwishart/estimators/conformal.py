"""Split conformal prediction: how far intervals have to reach to keep their promise."""

from __future__ import annotations

import math

import numpy as np


def conformal_quantile(scores: np.ndarray, coverage: float) -> np.ndarray:
    r"""The :math:`\lceil (n + 1) c \rceil`-th smallest of n scores, for each column.

    If the score of a new row is exchangeable with the others, it is at most this with probability
    :math:`c` or more, and, where no two are equal, no more than :math:`c + 1/(n + 1)` (Vovk,
    Gammerman and Shafer, 2005).

    Args:
        scores: ``(n, D)``.
        coverage: :math:`c`.

    >>> conformal_quantile(np.arange(1.0, 10.0)[:, None], coverage=0.8)
    array([8.])
    """
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    if rank > len(scores):
        raise ValueError(
            f"coverage={coverage:g} needs at least {math.ceil(coverage / (1 - coverage) - 1e-9)} "
            f"calibration rows, there are {len(scores)}. Call calibrate with more rows, or ask for "
            "less."
        )
    return np.sort(scores, axis=0)[rank - 1]
