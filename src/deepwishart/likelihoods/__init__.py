"""Observation models."""

from deepwishart.likelihoods.base import Likelihood, Mixture
from deepwishart.likelihoods.bernoulli import Bernoulli
from deepwishart.likelihoods.categorical import Categorical
from deepwishart.likelihoods.classes import ClassLikelihood
from deepwishart.likelihoods.gaussian import Gaussian

__all__ = ["Bernoulli", "Categorical", "ClassLikelihood", "Gaussian", "Likelihood", "Mixture"]
