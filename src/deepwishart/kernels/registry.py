r"""Kernels by name, for configuration files and command lines."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import torch

from deepwishart._support.choices import check_choice
from deepwishart.kernels.arc_cosine import ArcCosine
from deepwishart.kernels.base import Kernel
from deepwishart.kernels.dot_product import Linear
from deepwishart.kernels.matern import Matern12, Matern32, Matern52
from deepwishart.kernels.rational_quadratic import RationalQuadratic
from deepwishart.kernels.squared_exponential import SquaredExponential

_ARD: dict[str, Callable[..., Kernel]] = {
    "squared_exponential": SquaredExponential,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rational_quadratic": RationalQuadratic,
    "linear": Linear,
}
_WITHOUT_ARD: dict[str, Callable[..., Kernel]] = {
    "arc_cosine0": partial(ArcCosine, 0),
    "arc_cosine1": partial(ArcCosine, 1),
    "relu": partial(ArcCosine, 1),
}


def names() -> tuple[str, ...]:
    """The names that :func:`make` knows, in alphabetical order.

    >>> "matern52" in names()
    True
    """
    return tuple(sorted([*_ARD, *_WITHOUT_ARD]))


def make(
    name: str | Kernel, *, num_features: int | None = None, dtype: torch.dtype | None = None
) -> Kernel:
    """A new kernel with the default initial values, or a copy of a given one.

    Args:
        name: one of :func:`names`, or a kernel, which is copied so that layers built from it do
            not share parameters.
        num_features: one lengthscale per feature (ARD); ignored by the arc-cosine kernels, which
            have no lengthscale, and by a given kernel, which has decided already.
        dtype: of the parameters.

    >>> make("matern32", num_features=4)
    Matern32(height=1, lengthscale=[1, 1, 1, 1])
    """
    if isinstance(name, Kernel):
        return copy.deepcopy(name).to(dtype=dtype)
    check_choice("kernel", name, names())
    if name in _ARD:
        return _ARD[name](num_features=num_features, dtype=dtype)
    return _WITHOUT_ARD[name](dtype=dtype)
