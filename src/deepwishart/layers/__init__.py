"""Layers: each draws itself at the inducing points, scored, and then at rows."""

from deepwishart.kernels.points import GramInducing, GramRows, Inducing, Rows
from deepwishart.layers.base import GaussianSample, Layer, LayerSample, OutputLayer, OutputSample
from deepwishart.layers.collapsed_output import CollapsedOutputLayer
from deepwishart.layers.doubly_stochastic import DoublyStochasticLayer, DoublyStochasticOutputLayer
from deepwishart.layers.exact_output import ExactOutputLayer
from deepwishart.layers.gaussian import ConditionalSample
from deepwishart.layers.global_inducing import GlobalInducingLayer
from deepwishart.layers.inducing_output import GPOutputLayer
from deepwishart.layers.inverse_wishart import InverseWishartLayer
from deepwishart.layers.stacked_output import StackedOutputLayer
from deepwishart.layers.wishart import AnchoredLayer, BartlettLayer, WishartLayer
from deepwishart.numerics.rows import Conditional

__all__ = [
    "AnchoredLayer",
    "BartlettLayer",
    "CollapsedOutputLayer",
    "Conditional",
    "ConditionalSample",
    "DoublyStochasticLayer",
    "DoublyStochasticOutputLayer",
    "ExactOutputLayer",
    "GPOutputLayer",
    "GaussianSample",
    "GlobalInducingLayer",
    "GramInducing",
    "GramRows",
    "Inducing",
    "InverseWishartLayer",
    "Layer",
    "LayerSample",
    "OutputLayer",
    "OutputSample",
    "Rows",
    "StackedOutputLayer",
    "WishartLayer",
]
