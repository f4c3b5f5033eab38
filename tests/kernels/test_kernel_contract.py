"""Every kernel fulfils the contract, and the contract notices kernels that do not."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from deepwishart import kernels
from deepwishart.kernels import (
    ArcCosine,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)
from deepwishart.kernels.stationary import squared_distance
from deepwishart.testing import check_kernel
from tests.sabotage import broken

STATIONARY = [name for name in kernels.names() if isinstance(kernels.make(name), Stationary)]
KERNELS = {
    **{name: kernels.make(name) for name in kernels.names()},
    **{f"{name}, 4 features": kernels.make(name, num_features=4) for name in kernels.names()},
    "squared exponential, other values": SquaredExponential(height=0.3, lengthscale=2.5),
    "rational quadratic, other values": RationalQuadratic(alpha=0.3, height=2.0, lengthscale=0.4),
    "arc cosine, no bias": ArcCosine(height=1.5, bias=0.0),
    "linear, no bias": Linear(height=0.5, bias=0.0),
    "sum": SquaredExponential() + Linear(),
    "product": Matern32(lengthscale=2.0) * ArcCosine(),
    "scale": 2.0 * Matern52(),
    "nested": 0.5 * (Matern12() + Linear() * Linear()) * RationalQuadratic(),
    **{f"{name}, 2 inputs": kernels.make(name, num_inputs=2) for name in STATIONARY},
    "sum, 4 inputs": SquaredExponential(num_inputs=4) + Matern32(num_inputs=4),
    "partly ARD": SquaredExponential(num_features=4) + 3.0 * Matern12() * Linear(num_features=4),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", KERNELS)
def test_contract(name: str, dtype: torch.dtype) -> None:
    check_kernel(KERNELS[name], dtype=dtype)


class _Plain(Stationary):
    def profile(self, squared_distance: Tensor) -> Tensor:
        return (-0.5 * squared_distance).exp()


class _UndefinedDirection(Kernel):
    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        return g_xy / (g_xx * g_yy).sqrt()

    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        return torch.ones_like(g_xx)


def changed(**changes: Callable[..., Any]) -> Kernel:
    return broken(_Plain, **changes)()


def _matrix(value: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """A change of what a method answers."""
    return lambda self, parent, *points, **options: value(parent(*points, **options))


def _points(value: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """A change of the features that ``square`` is asked about, right on the diagonal."""
    return lambda self, parent, points, **options: parent(value(points), **options)


def test_the_unbroken_relative_of_the_broken_kernels_passes() -> None:
    check_kernel(_Plain())


@pytest.mark.parametrize(
    ("kernel", "violation"),
    [
        (
            changed(elementwise=lambda self, parent, *g: parent(*g) * (1 + 0.01 * (g[0] - g[2]))),
            "cross is not a block of square",
        ),
        (
            changed(square=_matrix(lambda k: k + 1e-12 * torch.ones_like(k).triu(1))),
            "square is not exactly symmetric",
        ),
        (
            changed(diagonal=_matrix(lambda k: 1.001 * k)),
            "diagonal is not what cross has for a point with itself",
        ),
        (
            changed(square=_matrix(lambda k: k + 1e-12 * torch.eye(k.shape[-1]))),
            "the diagonal of square is not exactly diagonal",
        ),
        (
            changed(on_diagonal=_matrix(lambda k: 1.001 * k)),
            "square of features and of their Gram matrix differ",
        ),
        (changed(profile=lambda self, parent, R: 1 - 0.1 * R), "not positive semi-definite"),
        (
            changed(cross=_matrix(lambda k: k.float())),
            "turns torch.float64 into torch.float32",
        ),
        (
            changed(cross=_matrix(lambda k: k + 1e-13 * torch.rand_like(k))),
            "gives two answers to one question",
        ),
        (changed(square=_points(lambda x: 1.01 * x)), "cross is not a block of square"),
        (
            changed(square=_points(lambda x: x * (1 + 0.01 * (x.dim() - 2)))),
            "square depends on the rest of the batch",
        ),
        (
            changed(square=lambda self, parent, x, jitter=0.0, **v: parent(x, **v) + jitter),
            "square with variance and jitter is not variance",
        ),
        (
            changed(cross=lambda self, parent, x, y, variance=1.0: parent(x, y)),
            "with variance and jitter is not variance",
        ),
        (
            changed(elementwise=lambda self, parent, xx, *g: parent(xx.detach(), *g)),
            "differs from finite differences",
        ),
        (
            changed(profile=lambda self, parent, R: (-R.sqrt()).exp()),
            "gradient is not finite where two points coincide",
        ),
        (_UndefinedDirection(), "not finite where two points coincide or one is zero"),
        (
            broken(_Plain, _require_gram_form=lambda self, parent: None)(num_features=3),
            "needs features, but accepts a Gram matrix",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_contract_notices(kernel: Kernel, violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        check_kernel(kernel)


def test_squared_distance_is_clamped_where_rounding_makes_it_negative() -> None:
    g = torch.tensor(1.0)
    assert squared_distance(g, torch.nextafter(g, torch.tensor(math.inf)), g).item() == 0.0
