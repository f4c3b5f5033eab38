"""Observation models."""

from deepwishart.likelihoods.base import Likelihood, Mixture
from deepwishart.likelihoods.bernoulli import Bernoulli
from deepwishart.likelihoods.categorical import Categorical
from deepwishart.likelihoods.classes import ClassLikelihood
from deepwishart.likelihoods.gaussian import Gaussian
from deepwishart.likelihoods.heteroscedastic import HeteroscedasticGaussian
from deepwishart.likelihoods.heteroscedastic_t import HeteroscedasticStudentT
from deepwishart.likelihoods.negative_binomial import NegativeBinomial
from deepwishart.likelihoods.poisson import Poisson
from deepwishart.likelihoods.student_t import StudentT

__all__ = [
    "Bernoulli",
    "Categorical",
    "ClassLikelihood",
    "Gaussian",
    "HeteroscedasticGaussian",
    "HeteroscedasticStudentT",
    "Likelihood",
    "Mixture",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
]
