"""Every kernel fulfils the contract, and the contract notices kernels that do not."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from deepwishart import kernels
from deepwishart.kernels import (
    ArcCosine,
    GramInducing,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)
from deepwishart.kernels.elementary import squared_distance
from deepwishart.testing import check_kernel

STATIONARY = [name for name in kernels.names() if isinstance(kernels.make(name), Stationary)]
KERNELS = {
    **{name: kernels.make(name) for name in kernels.names()},
    **{f"{name}, 4 features": kernels.make(name, num_features=4) for name in kernels.names()},
    "squared exponential, other values": SquaredExponential(height=0.3, lengthscale=2.5),
    "rational quadratic, other values": RationalQuadratic(alpha=0.3, height=2.0, lengthscale=0.4),
    "arc cosine 0, no bias": ArcCosine(order=0, bias=0.0),
    "arc cosine 1, no bias": ArcCosine(order=1, height=1.5, bias=0.0),
    "linear, no bias": Linear(height=0.5, bias=0.0),
    "sum": SquaredExponential() + Linear(),
    "product": Matern32(lengthscale=2.0) * ArcCosine(),
    "scale": 2.0 * Matern52(),
    "nested": 0.5 * (Matern12() + Linear() * Linear()) * RationalQuadratic(),
    **{f"{name}, 2 inputs": kernels.make(name, num_inputs=2) for name in STATIONARY},
    "partly ARD": SquaredExponential(num_features=4) + 3.0 * Matern12() * Linear(num_features=4),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", KERNELS)
def test_contract(name: str, dtype: torch.dtype) -> None:
    check_kernel(KERNELS[name], dtype=dtype)


def test_the_check_leaves_the_kernel_alone() -> None:
    kernel = SquaredExponential(dtype=torch.float32)
    check_kernel(kernel, dtype=torch.float64)
    assert kernel.log_height.dtype == torch.float32
    assert kernel.log_height.grad is None


class _Broken(Stationary):
    def profile(self, squared_distance: Tensor) -> Tensor:
        return (-0.5 * squared_distance).exp()


class _Asymmetric(_Broken):
    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        return super().elementwise(g_xx, g_xy, g_yy) * (1 + 0.01 * (g_xx - g_yy))


class _AsymmetricSquare(_Broken):
    def square(self, points: Any, **options: float) -> Tensor:
        return super().square(points, **options) + 1e-12 * torch.ones(
            len(points), len(points)
        ).triu(1)


class _WrongDiagonal(_Broken):
    def diagonal(self, points: Any, **options: float) -> Tensor:
        return 1.001 * super().diagonal(points, **options)


class _JitterUnasked(_Broken):
    def square(self, points: Any, **options: float) -> Tensor:
        return super().square(points, **options) + 1e-12 * torch.eye(points.shape[-2])


class _WrongOnDiagonal(_Broken):
    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        return 1.001 * super().on_diagonal(g_xx)


class _NegativeEigenvalues(_Broken):
    def profile(self, squared_distance: Tensor) -> Tensor:
        return 1 - 0.1 * squared_distance


class _Downcast(_Broken):
    def cross(self, first: Any, second: Any, **options: float) -> Any:
        return super().cross(first, second, **options).float()


class _Random(_Broken):
    def cross(self, first: Any, second: Any, **options: float) -> Any:
        value = super().cross(first, second, **options)
        return value + 1e-13 * torch.rand_like(value)


class _OtherSquare(_Broken):
    def square(self, points: Any, **options: float) -> Tensor:
        # Right on the diagonal and symmetric, and yet another kernel than cross.
        return super().square(1.01 * points, **options)


class _LooksAtItsNeighbours(_Broken):
    def square(self, points: Any, **options: float) -> Tensor:
        return super().square(points * (1 + 0.01 * (points.dim() - 2)), **options)


class _JitterOnTheWhole(_Broken):
    def square(self, points: Any, *, jitter: float = 0.0, variance: float = 1.0) -> Tensor:
        return super().square(points, variance=variance) + jitter


class _ForgetsTheVariance(_Broken):
    def cross(self, first: Any, second: Any, *, variance: float = 1.0) -> Any:
        return super().cross(first, second)


class _OtherGramForm(_Broken):
    def cross(self, first: Any, second: Any, **options: float) -> Any:
        factor = 1.01 if isinstance(first, GramInducing) else 1.0
        return super().cross(first, second, **options) * factor


class _NoGradient(_Broken):
    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        return super().elementwise(g_xx.detach(), g_xy, g_yy)


class _Cusp(_Broken):
    def profile(self, squared_distance: Tensor) -> Tensor:
        return (-squared_distance.sqrt()).exp()


class _UndefinedDirection(Kernel):
    def elementwise(self, g_xx: Tensor, g_xy: Tensor, g_yy: Tensor) -> Tensor:
        return g_xy / (g_xx * g_yy).sqrt()

    def on_diagonal(self, g_xx: Tensor) -> Tensor:
        return torch.ones_like(g_xx)


class _ForgetsItsFeatures(_Broken):
    def _require_gram_form(self) -> None:
        pass


@pytest.mark.parametrize(
    ("kernel", "violation"),
    [
        (_Asymmetric(), "k\\(x, y\\) and k\\(y, x\\) differ"),
        (_AsymmetricSquare(), "square is not exactly symmetric"),
        (_WrongDiagonal(), "diagonal is not what cross has for a point with itself"),
        (_JitterUnasked(), "the diagonal of square is not exactly diagonal"),
        (_WrongOnDiagonal(), "square of features and of their Gram matrix differ"),
        (_NegativeEigenvalues(), "not positive semi-definite"),
        (_Downcast(), "cross turns torch.float64 into torch.float32"),
        (_Random(), "gives two answers to one question"),
        (_OtherSquare(), "cross is not a block of square"),
        (_LooksAtItsNeighbours(), "square depends on the rest of the batch"),
        (_JitterOnTheWhole(), "square with variance and jitter is not variance"),
        (_ForgetsTheVariance(), "square with variance and jitter is not variance"),
        (_OtherGramForm(), "square of features and of their Gram matrix differ"),
        (_NoGradient(), "differs from finite differences"),
        (_Cusp(), "gradient is not finite where two points coincide"),
        (_UndefinedDirection(), "not finite where two points coincide or one is zero"),
        (_ForgetsItsFeatures(num_features=3), "needs features, but accepts a Gram matrix"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Kernel) else "",
)
def test_contract_notices(kernel: Kernel, violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        check_kernel(kernel)


def test_the_unbroken_relative_of_the_broken_kernels_passes() -> None:
    check_kernel(_Broken())


def test_squared_distance_is_clamped_where_rounding_makes_it_negative() -> None:
    g = torch.tensor(1.0)
    assert squared_distance(g, torch.nextafter(g, torch.tensor(math.inf)), g).item() == 0.0
