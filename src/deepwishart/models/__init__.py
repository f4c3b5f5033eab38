"""Models: a stack of layers, and :func:`build` to make one from data."""

from deepwishart.models.build import PROCESSES, build
from deepwishart.models.deep_kernel_process import DeepKernelProcess
from deepwishart.models.prior import PriorSample, sample_prior

__all__ = ["PROCESSES", "DeepKernelProcess", "PriorSample", "build", "sample_prior"]
