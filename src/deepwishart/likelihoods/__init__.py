"""Observation models."""

from deepwishart.likelihoods.base import Likelihood, Mixture
from deepwishart.likelihoods.gaussian import Gaussian

__all__ = ["Gaussian", "Likelihood", "Mixture"]
