"""The scikit-learn face of the library: numbers in, calibrated predictions out."""

from deepwishart.estimators.base import DeepKernelEstimator
from deepwishart.estimators.regressor import DeepKernelRegressor
from deepwishart.pipeline import RescaledPredictive, Standardiser

__all__ = ["DeepKernelEstimator", "DeepKernelRegressor", "RescaledPredictive", "Standardiser"]
