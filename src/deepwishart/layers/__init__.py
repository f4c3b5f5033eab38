"""Layers: each samples its inducing part with its log-density ratio, then its rows."""

from deepwishart.layers.base import GramInducing, GramRows, Layer
from deepwishart.layers.doubly_stochastic import DoublyStochasticLayer
from deepwishart.layers.global_inducing import GlobalInducingLayer, GPOutputLayer
from deepwishart.layers.inverse_wishart import InverseWishartLayer
from deepwishart.layers.wishart import WishartLayer

__all__ = [
    "DoublyStochasticLayer",
    "GPOutputLayer",
    "GlobalInducingLayer",
    "GramInducing",
    "GramRows",
    "InverseWishartLayer",
    "Layer",
    "WishartLayer",
]
