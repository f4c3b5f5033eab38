"""The numbers that are reported for a trained model."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from deepwishart import metrics
from deepwishart.models import DeepKernelProcess
from deepwishart.objectives import elbo
from deepwishart.reproduction.datasets import Standardised

__all__ = ["Bound", "estimate_elbo", "evaluate"]

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

    over B independent estimates of 10 posterior samples each. Rows are streamed in chunks, each
    with its own samples, which keeps memory bounded and the estimate unbiased.

    Args:
        model: any process.
        X: all training inputs ``(N, num_features)``.
        y: all training targets ``(N,)`` or ``(N, D)``.
        num_samples: posterior samples in all, rounded up to a multiple of 10.
        generator: randomness; PyTorch's default generator if ``None``.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> estimate_elbo(model, X, X.sin(), num_samples=50).standard_error > 0
    True
    """
    inducing = max(p.shape[-2] for n, p in model.named_parameters() if "inducing_inputs" in n)
    rows = max(1, _BLOCK_ELEMENTS // (_BATCH_SAMPLES * inducing))
    estimates = []
    for _ in range(max(2, math.ceil(num_samples / _BATCH_SAMPLES))):
        total = 0.0
        for inputs, targets in zip(X.split(rows), y.split(rows), strict=True):
            bound = elbo(
                model,
                inputs,
                targets,
                num_data=len(X),
                num_samples=_BATCH_SAMPLES,
                generator=generator,
            )
            total += float(bound) * len(inputs)
        estimates.append(total / len(X))
    values = torch.tensor(estimates, dtype=torch.float64)
    return Bound(float(values.mean()), float(values.std() / math.sqrt(len(values))))


def evaluate(
    model: DeepKernelProcess,
    data: Standardised,
    *,
    elbo_samples: int = 1000,
    test_samples: int = 100,
    seed: int = 0,
) -> dict[str, float]:
    """The paper's two numbers and three more.

    The ELBO is per training point in standardised units. Everything about test points is in the
    original units of y: the log likelihood is that of the mixture over ``test_samples`` posterior
    samples, averaged over test points, minus the log of y's standard deviation.

    Args:
        model: a trained model.
        data: the split it was trained on, standardised.
        elbo_samples: posterior samples for the ELBO.
        test_samples: posterior samples for predictions.
        seed: seed of the samples.

    >>> import numpy as np
    >>> import deepwishart as dw
    >>> from deepwishart.reproduction.datasets import Split
    >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> data = Standardised(Split(x, x[:, 0], x, x[:, 0]), y_mean=0.0, y_std=1.0)
    >>> model = dw.build("dwp", torch.as_tensor(x), torch.as_tensor(x), num_inducing=5)
    >>> sorted(evaluate(model, data, elbo_samples=20, test_samples=5))
    ['coverage90', 'crps', 'elbo', 'elbo_se', 'rmse', 'test_log_likelihood']
    """
    kind = {"dtype": model.dtype, "device": model.device}
    X, y, X_test = (torch.as_tensor(values).to(**kind) for values in data.split[:3])  # type: ignore[call-overload]
    generator = torch.Generator(model.device).manual_seed(seed)
    bound = estimate_elbo(model, X, y, num_samples=elbo_samples, generator=generator)
    prediction = model.predict(X_test, num_samples=test_samples, generator=generator)
    y_test, scale = data.split.y_test, data.y_std
    return {
        "elbo": bound.mean,
        "elbo_se": bound.standard_error,
        "test_log_likelihood": metrics.log_likelihood(prediction, y_test) - math.log(scale),
        "rmse": metrics.rmse(prediction, y_test) * scale,
        "crps": metrics.crps(prediction, y_test) * scale,
        "coverage90": metrics.interval_coverage(prediction, y_test, coverage=0.9),
    }
