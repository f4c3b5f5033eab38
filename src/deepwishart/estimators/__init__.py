"""The scikit-learn face of the library: numbers in, calibrated predictions out."""

from deepwishart.estimators.base import DeepKernelEstimator
from deepwishart.estimators.classifier import DeepKernelClassifier
from deepwishart.estimators.regressor import DeepKernelRegressor
from deepwishart.estimators.relevance import Relevance
from deepwishart.pipeline import RescaledPredictive, Standardiser

__all__ = [
    "DeepKernelClassifier",
    "DeepKernelEstimator",
    "DeepKernelRegressor",
    "Relevance",
    "RescaledPredictive",
    "Standardiser",
]
