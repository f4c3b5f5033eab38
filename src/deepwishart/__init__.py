"""Deep kernel processes you can use: deep Wishart processes, and the deep GPs they equal."""

from deepwishart import distributions, kernels, layers, likelihoods, linalg
from deepwishart.blocks import Blocks, Features
from deepwishart.models import DeepKernelProcess, build, sample_prior
from deepwishart.noise import Noise
from deepwishart.objectives import elbo, importance_weighted_bound
from deepwishart.predict import Predictive

__version__ = "0.1.0"

__all__ = [
    "Blocks",
    "DeepKernelProcess",
    "Features",
    "Noise",
    "Predictive",
    "build",
    "distributions",
    "elbo",
    "importance_weighted_bound",
    "kernels",
    "layers",
    "likelihoods",
    "linalg",
    "sample_prior",
]
