"""The numbers that are reported for a trained model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepwishart import metrics
from deepwishart.bound import elbo
from deepwishart.estimators.scaled_model import RescaledPredictive, Standardiser
from deepwishart.model import DeepKernelProcess

_BATCH_SAMPLES = 10
_BLOCK_ELEMENTS = 2**21  # elements of one samples x inducing x rows block


class Bound(NamedTuple):
    """A Monte Carlo estimate of the ELBO per data point, and its standard error."""

    mean: float
    standard_error: float


@torch.no_grad()
def estimate_elbo(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    *,
    num_samples: int = 1000,
    generator: torch.Generator | None = None,
) -> Bound:
    r"""ELBO per data point over all rows, with a standard error:

    .. math:: \frac1B \sum_b \text{ELBO}_b \pm
              \Big(\frac{1}{B(B-1)} \sum_b (\text{ELBO}_b - \overline{\text{ELBO}})^2\Big)^{1/2}

    over B independent estimates of 10 posterior samples each: ``num_samples`` in all, rounded up,
    and at least 20. ``X`` and ``y`` are all training rows; they are streamed in chunks, which keeps
    memory bounded and the estimate unbiased. Without hidden layers nothing is random, and one
    estimate is enough.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> estimate_elbo(model, X, X.sin(), num_samples=50).standard_error > 0
    True
    """
    rows = max(1, _BLOCK_ELEMENTS // (_BATCH_SAMPLES * model.num_inducing))
    rows = len(X) if model.output.needs_rows else rows
    options: dict[str, Any] = {"num_data": len(X), "num_samples": _BATCH_SAMPLES}
    batches = max(2, math.ceil(num_samples / _BATCH_SAMPLES)) if model.hidden else 1
    estimates = torch.zeros(batches, dtype=torch.float64)
    for index in range(len(estimates)):
        for inputs, targets in zip(X.split(rows), y.split(rows), strict=True):
            bound = elbo(model, inputs, targets, generator=generator, **options)
            estimates[index] += bound.item() * len(inputs) / len(X)
    error = estimates.std().item() / math.sqrt(batches) if batches > 1 else 0.0
    return Bound(estimates.mean().item(), error)


def conformal_quantile(scores: np.ndarray, coverage: float) -> np.ndarray:
    r"""The :math:`\lceil (n + 1) c \rceil`-th smallest of n scores, for each column.

    Split conformal prediction: if the score of a new row is exchangeable with the others, ``(n,
    D)``, it is at most this with probability :math:`c` or more, and, where no two are equal, no
    more than :math:`c + 1/(n + 1)` (Vovk, Gammerman and Shafer, 2005).

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


def score(
    prediction: RescaledPredictive | tuple[np.ndarray, np.ndarray], y: np.ndarray
) -> list[dict[str, float]]:
    """Log likelihood per row, RMSE, CRPS and coverage of the 90% interval of each target column, in
    the units of ``y``, ``(N,)`` or ``(N, D)``; of Gaussians by means and standard deviations, ``(N,
    D)`` each, as well.

    >>> from deepwishart.estimators import ScaledModel
    >>> from deepwishart.spec import ModelSpec
    >>> X = np.linspace(0.0, 600.0, 30)[:, None]
    >>> (scores,) = score(ScaledModel.build(ModelSpec(1, num_inducing=5), X, X).predict(X, 5), X)
    >>> sorted(scores), 0 < scores["rmse"] < 200
    (['coverage90', 'crps', 'log_likelihood', 'rmse'], True)
    """
    marginals: Iterable[Any] = (
        zip(*(part.T for part in prediction), strict=True)
        if isinstance(prediction, tuple)
        else map(prediction.column, range(len(prediction.scaling.scale)))
    )
    return [
        {
            "log_likelihood": metrics.log_likelihood(guess, truth),
            "rmse": metrics.rmse(guess, truth),
            "crps": metrics.crps(guess, truth),
            "coverage90": metrics.interval_coverage(guess, truth, 0.9),
        }
        for guess, truth in zip(marginals, y.reshape(len(y), -1).T, strict=True)
    ]


def score_constant(train: np.ndarray, y: np.ndarray) -> list[dict[str, float]]:
    """The scores of a guess with mean and standard deviation of the targets ``train`` for all rows.

    >>> X = np.array([[0.0], [10.0], [20.0]])
    >>> round(score_constant(X, X)[0]["rmse"], 4)
    8.165
    """
    scaling = Standardiser.fit(train.reshape(len(train), -1))
    shape = (len(y), len(scaling.scale))
    return score((scaling.inverse(np.zeros(shape)), np.broadcast_to(scaling.scale, shape)), y)
