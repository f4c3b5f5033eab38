r"""Kernels by name, for configuration files and command lines."""

from __future__ import annotations

import copy

import torch

from deepwishart._support.arguments import check_choice, shown
from deepwishart.kernels.arc_cosine import ArcCosine
from deepwishart.kernels.base import Kernel
from deepwishart.kernels.dot_product import Linear
from deepwishart.kernels.stationary import (
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)

_STATIONARY: dict[str, type[Stationary]] = {
    "squared_exponential": SquaredExponential,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rational_quadratic": RationalQuadratic,
}
_ARC_COSINE = ("arc_cosine1", "relu")


def names() -> tuple[str, ...]:
    """The names that :func:`make` knows, in alphabetical order.

    >>> "matern52" in names()
    True
    """
    return tuple(sorted([*_STATIONARY, *_ARC_COSINE, "linear"]))


def make(
    name: str | Kernel,
    *,
    num_features: int | None = None,
    num_inputs: int | None = None,
    dtype: torch.dtype | None = None,
) -> Kernel:
    """A new kernel with the default initial values, or a copy of a given one.

    Args:
        name: one of :func:`names`, or a kernel, which is copied so that layers built from it do
            not share parameters.
        num_features: one lengthscale per feature (ARD); ignored by the arc-cosine kernels, which
            have no lengthscale, and by a given kernel, which has decided already.
        num_inputs: number of inputs beside the features, for stationary kernels
            (:class:`Stationary`); a given kernel has to have it already.
        dtype: of the parameters.

    >>> make("matern32", num_features=4)
    Matern32(height=1, lengthscale=[1, 1, 1, 1])
    """
    if not isinstance(name, Kernel):
        check_choice("kernel", name, names())
        if name in _STATIONARY:
            kind = _STATIONARY[name]
            return kind(num_features=num_features, num_inputs=num_inputs, dtype=dtype)
    if num_inputs is not None and (isinstance(name, str) or name.num_inputs != num_inputs):
        raise ValueError(
            f"A kernel on features and {num_inputs} inputs is stationary: use one of "
            f"{', '.join(_STATIONARY)}, or an object with num_inputs={num_inputs}; got "
            f"{shown(name)}."
        )
    if isinstance(name, Kernel):
        return copy.deepcopy(name).to(dtype=dtype)
    if name == "linear":
        return Linear(num_features=num_features, dtype=dtype)
    return ArcCosine(dtype=dtype)
