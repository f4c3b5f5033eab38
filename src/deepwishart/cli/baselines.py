"""Models that anyone would try first, scored on the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.linear_model import BayesianRidge

from deepwishart.likelihoods import Gaussian
from deepwishart.pipeline import score, score_gaussian

if TYPE_CHECKING:
    from deepwishart.cli.preparation import Rows
    from deepwishart.estimators import DeepKernelRegressor

__all__ = ["score_baselines", "score_linear"]

Scores = list[dict[str, float]]


def score_linear(regressor: DeepKernelRegressor, train: Rows, test: Rows) -> Scores:
    """Bayesian linear regression on the same columns, standardised as the regressor does it."""
    scaled = regressor._scaled
    X, y = scaled.inputs.forward(train[0].to_numpy()), scaled.targets.forward(train[1])
    new = scaled.inputs.forward(test[0].to_numpy())
    fitted = [BayesianRidge().fit(X, column).predict(new, return_std=True) for column in y.T]
    mean, stddev = (torch.as_tensor(np.stack(part, axis=1)) for part in zip(*fitted, strict=True))
    return score_gaussian(mean, stddev, regressor.predict_distribution(test[0]), test[1])


def score_baselines(regressor: DeepKernelRegressor, train: Rows, test: Rows) -> dict[str, Scores]:
    """A linear model and, unless the model is one, a Gaussian process: the model with one layer,
    and with constant noise if the kind of noise was for the data to choose."""
    found = {"linear": score_linear(regressor, train, test)}
    chosen = regressor.likelihood == "auto" and not isinstance(
        regressor.model_.likelihood, Gaussian
    )
    if regressor.model_.depth != 1 or chosen:
        plain: Any = clone(regressor).set_params(depth=1, checkpoint_dir=None, verbose=0)
        plain.fit(train[0], train[1][:, 0] if regressor._single_column else train[1])
        found["gp"] = score(plain.predict_distribution(test[0]), test[1])
    return found
