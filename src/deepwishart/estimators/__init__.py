"""The scikit-learn face of the library: numbers in, calibrated predictions out."""

from deepwishart.estimators.distribution import RescaledPredictive
from deepwishart.estimators.regressor import DeepKernelRegressor
from deepwishart.estimators.standardise import Standardiser

__all__ = ["DeepKernelRegressor", "RescaledPredictive", "Standardiser"]
