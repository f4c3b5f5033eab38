"""Observation models."""

from deepwishart.likelihoods.base import Gaussian, Likelihood, Mixture
from deepwishart.likelihoods.classes import Bernoulli, Categorical, ClassLikelihood
from deepwishart.likelihoods.counts import CountLikelihood, Counts, NegativeBinomial, Poisson
from deepwishart.likelihoods.heteroscedastic import HeteroscedasticGaussian, HeteroscedasticStudentT
from deepwishart.likelihoods.student_t import StudentT

#: Likelihoods by name.
NAMES: dict[str, type[Likelihood]] = {
    "gaussian": Gaussian,
    "heteroscedastic": HeteroscedasticGaussian,
    "student_t": StudentT,
    "heteroscedastic_t": HeteroscedasticStudentT,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "bernoulli": Bernoulli,
    "categorical": Categorical,
}

__all__ = [
    "NAMES",
    "Bernoulli",
    "Categorical",
    "ClassLikelihood",
    "CountLikelihood",
    "Counts",
    "Gaussian",
    "HeteroscedasticGaussian",
    "HeteroscedasticStudentT",
    "Likelihood",
    "Mixture",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
]
