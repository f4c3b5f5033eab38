"""Distributions over Gram matrices and features, with the interface of ``torch.distributions``."""

from deepwishart.distributions.anchored import AnchoredWishart
from deepwishart.distributions.constraints import PositiveSemidefinite
from deepwishart.distributions.generalised import GeneralisedSingularWishart
from deepwishart.distributions.gram import GramDistribution
from deepwishart.distributions.inverse_wishart import InverseWishart
from deepwishart.distributions.matrix_normal import MatrixNormal
from deepwishart.distributions.wishart import Wishart

__all__ = [
    "AnchoredWishart",
    "GeneralisedSingularWishart",
    "GramDistribution",
    "InverseWishart",
    "MatrixNormal",
    "PositiveSemidefinite",
    "Wishart",
]
