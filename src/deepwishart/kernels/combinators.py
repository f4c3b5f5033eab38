r"""Kernels made of kernels."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from deepwishart._support.parameters import log_parameter
from deepwishart.kernels.base import Kernel
from deepwishart.kernels.points import Inducing, Points, Rows
from deepwishart.numerics.gaussian import Cross, formed


class Combination(Kernel):
    r"""A kernel :math:`k(x, y) = c(k_1(x, y), k_2(x, y), \dots)` made of others, entry by entry.

    Each part is asked for its own block, so that parts may have lengthscales of their own (ARD).
    The parts are not copied: a kernel used twice shares its parameters.

    >>> from deepwishart.kernels import Linear, SquaredExponential
    >>> Sum(Linear(), SquaredExponential(num_features=3)).needs_features
    True
    """

    def __init__(self, *kernels: Kernel) -> None:
        super().__init__()
        name = type(self).__name__
        if not kernels or not all(isinstance(kernel, Kernel) for kernel in kernels):
            given = ", ".join(type(kernel).__name__ for kernel in kernels) or "nothing"
            raise ValueError(f"{name} combines kernels; got {given}.")
        for count in ("num_features", "num_inputs"):
            found = {getattr(kernel, count) for kernel in kernels} - {None}
            if len(found) > 1:
                raise ValueError(
                    f"{name} applies its kernels to the same features, but they were built with "
                    f"different {count}: {sorted(found)}."
                )
            setattr(self, count, found.pop() if found else None)
        self.kernels = nn.ModuleList(kernels)

    @abstractmethod
    def combine(self, values: list[Tensor]) -> Tensor:
        """The combined value from one tensor per part, all of one shape."""

    def parts(self) -> Iterator[Kernel]:
        """The kernels that are combined."""
        return (cast(Kernel, kernel) for kernel in self.kernels)

    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        self._require_gram_form()
        return self.combine([kernel.elementwise(g_xx, g_xy, g_yy) for kernel in self.parts()])

    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        self._require_gram_form()
        return self.combine([kernel.on_diagonal(g_xx) for kernel in self.parts()])

    def cross(self, first: Inducing, second: Rows, *, variance: float = 1.0) -> Cross:
        values = [formed(kernel.cross(first, second)) for kernel in self.parts()]
        return self.combine(values) * variance

    def diagonal(self, points: Points, *, variance: float = 1.0) -> Tensor:
        return self.combine([kernel.diagonal(points) for kernel in self.parts()]) * variance


class Sum(Combination):
    r"""The kernel :math:`k(x, y) = \sum_m k_m(x, y)`, also written ``k1 + k2``.

    >>> from deepwishart.kernels import Linear
    >>> (Linear() + Linear(height=2.0)).square(torch.zeros(1, 1)).item()
    3.0
    """

    def combine(self, values: list[Tensor]) -> Tensor:
        return sum(values[1:], start=values[0])


class Product(Combination):
    r"""The kernel :math:`k(x, y) = \prod_m k_m(x, y)`, also written ``k1 * k2``.

    >>> from deepwishart.kernels import Linear
    >>> (Linear() * Linear(height=2.0)).square(torch.zeros(1, 1)).item()
    2.0
    """

    def combine(self, values: list[Tensor]) -> Tensor:
        return math.prod(values[1:], start=values[0])


class Scale(Combination):
    r"""The kernel :math:`h \, k(x, y)`, also written ``2.0 * k``; the height is learned, from the
    given one on, and takes its dtype and device from the kernel.

    >>> from deepwishart.kernels import Linear
    >>> (3.0 * Linear()).square(torch.zeros(1, 1)).item()
    3.0
    """

    def __init__(self, kernel: Kernel, height: float = 1.0) -> None:
        super().__init__(kernel)
        like = next(kernel.parameters(), torch.empty(()))
        self.log_height = log_parameter("height", height, dtype=like.dtype, device=like.device)

    @property
    def height(self) -> Tensor:
        """The factor, a scalar."""
        return self.log_height.exp()

    def combine(self, values: list[Tensor]) -> Tensor:
        return self.height * values[0]
