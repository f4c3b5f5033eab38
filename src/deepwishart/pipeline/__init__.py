"""From a table of numbers to a trained model and its scores: standardise, build, train, evaluate.

One path for everything that trains a model on data: the scikit-learn regressor, the paper's
experiments and the demonstration::

    scaled = ScaledModel.build("dwp", X, y, depth=2)  # standardise, build
    data = scaled.standardise(X, y)
    protocol = adjust_protocol("fast", len(X), max_iter=500)
    history = run_training(scaled.model, *data, protocol)  # train
    bound = estimate_elbo(scaled.model, *data)  # evaluate
    (scores,) = score(scaled.predict(X_test), y_test)  # in the units of y
"""

from deepwishart.pipeline.class_scores import (
    ClassPredictive,
    Reliability,
    number_classes,
    reliability,
    score_classes,
)
from deepwishart.pipeline.evaluation import (
    Bound,
    estimate_elbo,
    score,
    score_constant,
    score_gaussian,
)
from deepwishart.pipeline.scaled_model import RescaledPredictive, ScaledModel
from deepwishart.pipeline.search import Candidate, Fitted, inducing_points, search_model
from deepwishart.pipeline.standardise import Standardiser
from deepwishart.pipeline.training import (
    adjust_protocol,
    checkpoint_store,
    model_options,
    run_training,
)

__all__ = [
    "Bound",
    "Candidate",
    "ClassPredictive",
    "Fitted",
    "Reliability",
    "RescaledPredictive",
    "ScaledModel",
    "Standardiser",
    "adjust_protocol",
    "checkpoint_store",
    "estimate_elbo",
    "inducing_points",
    "model_options",
    "number_classes",
    "reliability",
    "run_training",
    "score",
    "score_classes",
    "score_constant",
    "score_gaussian",
    "search_model",
]
