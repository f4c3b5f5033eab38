"""Contracts that a new building block has to fulfil, as functions to call from a test.

Each raises :class:`AssertionError` with a sentence that names the block and what it violates. The
block is copied, not changed, and checked in the floating point type ``dtype``; ``seed`` is that of
all randomness.
"""

from deepwishart.testing.kernels import check_kernel
from deepwishart.testing.layers import check_layer
from deepwishart.testing.likelihoods import check_likelihood
from deepwishart.testing.outputs import check_output_layer

__all__ = ["check_kernel", "check_layer", "check_likelihood", "check_output_layer"]
