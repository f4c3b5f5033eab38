"""Kernels that are functions of inner products, on features or on Gram matrices."""

from deepwishart.kernels.arc_cosine import ArcCosine
from deepwishart.kernels.base import Kernel
from deepwishart.kernels.combinators import Combination, Product, Scale, Sum
from deepwishart.kernels.dot_product import DotProduct, Linear
from deepwishart.kernels.points import GramInducing, GramRows, Inducing, Points, Rows
from deepwishart.kernels.registry import make, names
from deepwishart.kernels.stationary import (
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)

__all__ = [
    "ArcCosine",
    "Combination",
    "DotProduct",
    "GramInducing",
    "GramRows",
    "Inducing",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Points",
    "Product",
    "RationalQuadratic",
    "Rows",
    "Scale",
    "SquaredExponential",
    "Stationary",
    "Sum",
    "make",
    "names",
]
