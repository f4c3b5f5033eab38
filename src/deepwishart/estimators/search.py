"""Choices that the data make: how many inducing points, which likelihood, how many layers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from deepwishart.estimators.evaluation import Bound
from deepwishart.estimators.scaled_model import ScaledModel
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.training import History, TrainingError

DEEPEST = 3  # each layer more is as long again, and most gains come from the first two
FEWEST = 100
ALL_ROWS = 1_500  # up to here a single layer has all rows for inducing points
_SHALLOW_WORK = 4e8  # largest P^2 N of a single layer with more rows
_DEEP_WORK = 2e7  # and of hidden layers, of which many samples are drawn
_WORTH = 0.02  # per row, what few inducing points may cost a deeper model


class Fitted(NamedTuple):
    """A trained model, how it was trained, and its bound."""

    scaled: ScaledModel
    history: History
    bound: Bound

    def describe(self) -> dict[str, Any]:
        """What was tried and what came out, as plain data."""
        seconds = self.history.seconds[-1] if self.history.seconds else 0.0
        return {
            "likelihood": type(self.scaled.model.likelihood).__name__,
            "depth": self.scaled.model.depth,
            "num_inducing": self.scaled.model.num_inducing,
            "elbo": self.bound.mean,
            "standard_error": self.bound.standard_error,
            "steps": len(self.history),
            "seconds": seconds,
        }


def inducing_points(num_rows: int, depth: int, collapsed: bool = True) -> int:
    r"""The number P of inducing points that pays, at a cost of about :math:`P^2 N` per step.

    A single integrated layer has all rows up to 1,500, when it is the exact Gaussian process, and
    then as many as keep :math:`P^2 N` at 4e8. Hidden layers have as many as keep it at 2e7, and
    no more than half of the rows. There are at least 100, as far as there are rows; and no more
    where the output layer is learned.

    >>> [inducing_points(1_000, depth) for depth in (1, 2)], inducing_points(300, 2)
    ([1000, 141], 150)
    """
    if depth == 1 and collapsed and num_rows <= ALL_ROWS:
        return num_rows
    work = 0.0 if not collapsed else _SHALLOW_WORK if depth == 1 else _DEEP_WORK
    affordable = math.isqrt(int(work / num_rows))
    return min(num_rows, max(FEWEST, min(affordable, num_rows if depth == 1 else num_rows // 2)))


class Candidate(NamedTuple):
    """A likelihood to try: how to train a model that has it, and with how many inducing points.

    Attributes:
        fit: trains a model of so many layers with so many inducing points.
        shallow: inducing points of a single layer.
        deep: inducing points of all layers of a deeper model.
    """

    fit: Callable[[int, int], Fitted]
    shallow: int
    deep: int


def search_model(candidates: Sequence[Candidate]) -> Fitted:
    """The best of a single layer and deeper models, tried while the bound rises.

    First a single layer for each candidate, with its ``shallow`` inducing points: the likelihood
    with the highest bound is kept, and this is the model that has to be surpassed. Then, with
    ``deep`` points in all of them, models of one layer, two and three, as long as one's bound is
    above that of the one before by more than the standard error of the difference. A deeper model
    is kept if it does not pay more than 0.02 per row for its fewer points, that is, if its bound is
    above the first one's less 0.02.

    Args:
        candidates: the first one has to be trainable; others, and deeper models, that are not are
            left out with a warning.

    Returns:
        The best, with a list of all that were tried in its history.

    >>> import deepwishart as dw
    >>> import numpy as np
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> def fit(depth, points):  # pretends that each layer adds 0.1, and the third does not
    ...     scaled = ScaledModel.build("dwp", X, X, depth=depth, num_inducing=points)
    ...     return Fitted(scaled, History(), Bound(0.1 * min(depth, 2), 0.01))
    >>> best = search_model([Candidate(fit, shallow=20, deep=10)])
    >>> best.scaled.model.depth, [each["depth"] for each in best.history.tried]
    (2, [1, 1, 2, 3])
    """
    chosen = candidates[0]
    first = chosen.fit(1, chosen.shallow)
    tried = [first]

    def attempt(candidate: Candidate, depth: int, points: int) -> Fitted | None:
        """A trained model, unless training was interrupted before or fails."""
        if tried[-1].history.stopped_by == "interrupt":
            return None
        try:
            tried.append(candidate.fit(depth, points))
        except (TrainingError, CholeskyError) as error:
            layers = "one layer" if depth == 1 else f"{depth} layers"
            warnings.warn(
                f"A model of {layers} could not be trained and is left out: {error}", stacklevel=3
            )
            return None
        return tried[-1]

    for candidate in candidates[1:]:
        single = attempt(candidate, 1, candidate.shallow)
        if single is not None and _above(single.bound, first.bound):
            first, chosen = single, candidate
    best = rival = first
    if chosen.deep < chosen.shallow:
        rival = attempt(chosen, 1, chosen.deep) or first
    for depth in range(2, DEEPEST + 1):
        deeper = attempt(chosen, depth, chosen.deep)
        if deeper is None or not _above(deeper.bound, rival.bound):
            break
        rival = deeper
        if rival.bound.mean > first.bound.mean - _WORTH:
            best = rival
    best.history.tried = [each.describe() for each in tried]
    if tried[-1].history.stopped_by == "interrupt":
        best.history.stopped_by = "interrupt"
    return best


def _above(new: Bound, old: Bound) -> bool:
    return new.mean - old.mean > math.hypot(new.standard_error, old.standard_error)
