"""Which kernel, which likelihood and how many layers, by the bounds of trained models."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from deepwishart.bound import NUMERICAL_ERRORS, elbo
from deepwishart.estimators.evaluation import Bound
from deepwishart.estimators.scaled_model import ScaledModel
from deepwishart.kernels import Kernel
from deepwishart.model import DeepKernelProcess
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.spec import ModelSpec
from deepwishart.training import History, TrainingError

DEEPEST = 3  # each layer more is as long again, and most gains come from the first two
#: Kernels that the evidence of a single layer chooses among.
KERNELS = ("squared_exponential", "matern52", "matern32", "rational_quadratic")


class Fitted(NamedTuple):
    """A trained model, how it was trained, and its bound."""

    scaled: ScaledModel
    history: History
    bound: Bound

    def describe(self) -> dict[str, Any]:
        """What was tried and what came out, as plain data."""
        seconds = self.history.seconds[-1] if self.history.seconds else 0.0
        return {
            "kernel": type(self.scaled.model.output.priors[0].kernel).__name__,
            "likelihood": type(self.scaled.model.likelihood).__name__,
            "depth": self.scaled.model.depth,
            "num_inducing": self.scaled.model.num_inducing,
            "elbo": self.bound.mean,
            "standard_error": self.bound.standard_error,
            "steps": len(self.history),
            "seconds": seconds,
        }


def search_model(
    make: Callable[..., ModelSpec],
    train: Callable[[ModelSpec, Fitted | None], Fitted],
    choices: Mapping[str, Sequence[Any]],
    num_rows: int,
    deepest: int = DEEPEST,
) -> Fitted:
    r"""The best of a single layer and deeper models, tried while the bound rises.

    First a single layer with the first option of every choice. Then the other options, choice by
    choice in their order: a choice's option with the highest bound is kept for those that follow.
    Then models of two layers and three, as long as the bound rises.

    The bound has risen if it is higher by more than the standard error of the difference and, with
    noise of the same kind, by more than :math:`\tfrac12 \log(N)/N` for each parameter that the
    kernels have more (Schwarz, 1978): a lengthscale is fitted, and wins by fitting alone.

    Args:
        make: ``make(depth, **options)`` gives the specification of a model with so many layers.
        train: makes and trains a model, close to a trained one if there is one.
        choices: options by the names that ``make`` knows. The first ones have to be trainable;
            others, and deeper models, that are not are left out with a warning.
        num_rows: number of training rows N.
        deepest: largest number of layers.

    Returns:
        The best, with a list of all that were tried in its history.

    >>> import numpy as np
    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> def make(depth, kernel):
    ...     return ModelSpec(num_features=1, num_inducing=10, depth=depth, kernel=kernel)
    >>> def train(spec, near):  # pretends that each layer adds 0.1, and the third does not
    ...     bound = Bound(0.1 * min(spec.depth, 2) + 0.1 * (spec.kernel == "matern32"), 0.01)
    ...     return Fitted(ScaledModel.build(spec, X, X), History(), bound)
    >>> best = search_model(make, train, {"kernel": ["matern52", "matern32"]}, num_rows=200)
    >>> best.scaled.model.spec.kernel, [each["depth"] for each in best.history.tried]
    ('matern32', [1, 1, 2, 3])
    """
    chosen = {name: options[0] for name, options in choices.items()}
    best = train(make(1, **chosen), None)
    tried = [best]

    def attempt(spec: ModelSpec, near: Fitted | None = None) -> Fitted | None:
        """A trained model, unless training was interrupted before or fails."""
        if tried[-1].history.stopped_by == "interrupt":
            return None
        try:
            tried.append(train(spec, near))
        except (TrainingError, CholeskyError) as error:
            layers = "one layer" if spec.depth == 1 else f"{spec.depth} layers"
            warnings.warn(
                f"A model of {layers} could not be trained and is left out: {error}", stacklevel=3
            )
            return None
        return tried[-1]

    for name, options in choices.items():
        for option in options[1:]:
            single = attempt(make(1, **{**chosen, name: option}), best)
            if single is not None and _above(single, best, num_rows):
                best, chosen = single, {**chosen, name: option}
    for layers in range(2, deepest + 1):
        deeper = attempt(make(layers, **chosen))
        if deeper is None or not _above(deeper, best, num_rows):
            break
        best = deeper
    best.history.tried = [each.describe() for each in tried]
    if tried[-1].history.stopped_by == "interrupt":
        best.history.stopped_by = "interrupt"
    return best


@torch.no_grad()
def start_near(model: DeepKernelProcess, near: DeepKernelProcess, X: Tensor, y: Tensor) -> None:
    """Let a model start with the kernels and the noise of another, as far as it has parameters of
    the same names and shapes, if its bound on the rows ``X`` and ``y`` is higher there.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> options = {"depth": 1, "output": "collapsed"}
    >>> near, model = dw.build("dwp", X, X.sin(), **options), dw.build("dwp", X, X.sin(), **options)
    >>> dw.training.train_deterministic(near, X, X.sin()).stopped_by
    'converged'
    >>> start_near(model, near, X, X.sin())
    >>> bool(model.likelihood.noise == near.likelihood.noise)
    True
    """
    own = {name: value.clone() for name, value in model.state_dict().items()}
    known = {
        name: value
        for name, value in near.state_dict().items()
        if name in own and {"kernel", "likelihood"} & set(name.split("."))
        if value.shape == own[name].shape
    }

    def bound() -> float:
        generator = torch.Generator(model.device).manual_seed(0)
        try:
            return float(elbo(model, X, y, num_data=len(X), generator=generator))
        except NUMERICAL_ERRORS:
            return -math.inf

    before = bound() if known else math.inf
    model.load_tensors({**own, **known})
    if not bound() > before:
        model.load_tensors(own)


def _above(new: Fitted, old: Fitted, num_rows: int) -> bool:
    error, cost = math.hypot(new.bound.standard_error, old.bound.standard_error), 0.0
    models = new.scaled.model, old.scaled.model
    if type(models[0].likelihood) is type(models[1].likelihood):
        more, less = (
            sum(
                p.numel()
                for part in model.modules()
                if isinstance(part, Kernel)
                for p in part.parameters(recurse=False)
            )
            for model in models
        )
        cost = 0.5 * max(more - less, 0) * math.log(num_rows) / num_rows
    return new.bound.mean - old.bound.mean > error + cost
