"""The nine UCI regression sets of the paper, with the published splits."""

from deepwishart.reproduction.datasets import *  # noqa: F403
from deepwishart.reproduction.datasets import __all__ as __all__
