"""Which likelihood and how many layers, by the bounds of trained models."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from deepwishart.estimators.evaluation import Bound
from deepwishart.estimators.scaled_model import ScaledModel
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.spec import ModelSpec
from deepwishart.training import History, TrainingError

DEEPEST = 3  # each layer more is as long again, and most gains come from the first two
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


class Candidate(NamedTuple):
    """A likelihood to try, as what its models are.

    Attributes:
        shallow: a single layer, with as many inducing points as such a model can afford.
        deep: a deeper model, of two layers and up to three, with fewer of them.
    """

    shallow: ModelSpec
    deep: ModelSpec


def search_model(candidates: Sequence[Candidate], train: Callable[[ModelSpec], Fitted]) -> Fitted:
    """The best of a single layer and deeper models, tried while the bound rises.

    First a single layer for each candidate: the likelihood with the highest bound is kept, and this
    is the model that has to be surpassed. Then, with the fewer inducing points of deep models in
    all of them, models of one layer, two and three, as long as one's bound is above that of the one
    before by more than the standard error of the difference. A deeper model is kept if it does not
    pay more than 0.02 per row for its fewer points, that is, if its bound is above the first one's
    less 0.02.

    Args:
        candidates: the first one has to be trainable; others, and deeper models, that are not are
            left out with a warning.
        train: makes and trains a model.

    Returns:
        The best, with a list of all that were tried in its history.

    >>> import numpy as np
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> def train(spec):  # pretends that each layer adds 0.1, and the third does not
    ...     bound = Bound(0.1 * min(spec.depth, 2), 0.01)
    ...     return Fitted(ScaledModel.build(spec, X, X), History(), bound)
    >>> deep = ModelSpec(num_features=1, num_inducing=10)
    >>> shallow = deep.replace(depth=1, num_inducing=20)
    >>> best = search_model([Candidate(shallow, deep)], train)
    >>> best.scaled.model.depth, [each["depth"] for each in best.history.tried]
    (2, [1, 1, 2, 3])
    """
    chosen = candidates[0]
    first = train(chosen.shallow)
    tried = [first]

    def attempt(spec: ModelSpec) -> Fitted | None:
        """A trained model, unless training was interrupted before or fails."""
        if tried[-1].history.stopped_by == "interrupt":
            return None
        try:
            tried.append(train(spec))
        except (TrainingError, CholeskyError) as error:
            layers = "one layer" if spec.depth == 1 else f"{spec.depth} layers"
            warnings.warn(
                f"A model of {layers} could not be trained and is left out: {error}", stacklevel=3
            )
            return None
        return tried[-1]

    for candidate in candidates[1:]:
        single = attempt(candidate.shallow)
        if single is not None and _above(single.bound, first.bound):
            first, chosen = single, candidate
    best = rival = first
    if chosen.deep.num_inducing < chosen.shallow.num_inducing:
        rival = attempt(chosen.deep.replace(depth=1)) or first
    for depth in range(2, DEEPEST + 1):
        deeper = attempt(chosen.deep.replace(depth=depth))
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
