"""Observation models."""

from deepwishart.likelihoods.gaussian import Gaussian

__all__ = ["Gaussian"]
