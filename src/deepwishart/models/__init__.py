"""Models: a stack of layers, and :func:`build` to make one from data."""

from deepwishart.models.build import OUTPUTS, PROCESSES, build
from deepwishart.models.posterior import FunctionSamples, Posterior
from deepwishart.models.prior import Prior, PriorSample, sample_prior
from deepwishart.models.process import DeepKernelProcess
from deepwishart.models.sample import ProcessSample

__all__ = [
    "OUTPUTS",
    "PROCESSES",
    "DeepKernelProcess",
    "FunctionSamples",
    "Posterior",
    "Prior",
    "PriorSample",
    "ProcessSample",
    "build",
    "sample_prior",
]
