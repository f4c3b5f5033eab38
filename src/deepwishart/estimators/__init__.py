"""The scikit-learn face of the library, and the one path below it from data to a trained model.

Estimators, the sweeps over the paper's experiments and the demonstrations all go this way::

    scaled = ScaledModel.build(ModelSpec(num_features), X, y)  # standardise, build
    data = scaled.standardise(X, y)
    protocol = adjust_protocol("fast", len(X), max_iter=500)
    history = run_training(scaled.model, *data, protocol)  # train
    bound = estimate_elbo(scaled.model, *data)  # evaluate
    (scores,) = score(scaled.predict(X_test), y_test)  # in the units of y
"""

from deepwishart.estimators.base import DeepKernelEstimator
from deepwishart.estimators.classifier import ClassPredictive, DeepKernelClassifier, number_classes
from deepwishart.estimators.evaluation import Bound, estimate_elbo, score, score_constant
from deepwishart.estimators.regressor import DeepKernelRegressor
from deepwishart.estimators.relevance import Relevance
from deepwishart.estimators.scaled_model import RescaledPredictive, ScaledModel, Standardiser
from deepwishart.estimators.search import Fitted, search_model

__all__ = [
    "Bound",
    "ClassPredictive",
    "DeepKernelClassifier",
    "DeepKernelEstimator",
    "DeepKernelRegressor",
    "Fitted",
    "Relevance",
    "RescaledPredictive",
    "ScaledModel",
    "Standardiser",
    "estimate_elbo",
    "number_classes",
    "score",
    "score_constant",
    "search_model",
]
