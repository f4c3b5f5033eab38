"""Gradients where they are delicate, and the fast path of the squared exponential."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from deepwishart.kernels import Matern12, Matern32, Matern52, SquaredExponential, Stationary
from deepwishart.kernels.arc_cosine import correlation
from deepwishart.kernels.elementary import safe_sqrt

F64 = torch.float64
DISTANCES, COSINES = (0.01, 0.5, 1.0, 7.0), (-0.9, -0.1, 0.3, 0.8)


@pytest.mark.parametrize(
    ("function", "where"),
    [
        *((f, DISTANCES) for f in (Matern12.profile, Matern32.profile, Matern52.profile)),
        (safe_sqrt, DISTANCES),
        (correlation, COSINES),
    ],
)
def test_first_and_second_derivative(
    function: Callable[[Tensor], Tensor], where: tuple[float, ...]
) -> None:
    value = torch.tensor(where, dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(function, value)
    assert torch.autograd.gradgradcheck(function, value, atol=1e-4)


@pytest.mark.parametrize(
    ("function", "where", "value", "slope"),
    [
        (safe_sqrt, 0.0, 0.0, 0.0),
        (Matern12.profile, 0.0, 1.0, 0.0),
        (Matern32.profile, 0.0, 1.0, -3 / 2),
        (Matern52.profile, 0.0, 1.0, -5 / 6),
        (correlation, 1.0, 1.0, 1.0),
        (correlation, -1.0, 0.0, 0.0),
        (correlation, 1.0 + 1e-15, 1.0, 1.0),
    ],
)
def test_value_and_slope_at_the_edge(
    function: Callable[[Tensor], Tensor], where: float, value: float, slope: float
) -> None:
    point = torch.tensor(where, dtype=F64, requires_grad=True)
    result = function(point)
    (gradient,) = torch.autograd.grad(result, point)
    assert result.item() == pytest.approx(value, abs=1e-15)
    assert gradient.item() == pytest.approx(slope, abs=1e-15)


def test_matern_slopes_keep_their_digits_near_zero() -> None:
    distance = torch.tensor(1e-8, requires_grad=True)
    (gradient,) = torch.autograd.grad(Matern52.profile(distance), distance)
    assert gradient.item() == pytest.approx(-5 / 6, rel=1e-6)


SHAPES = [((5, 3), (4, 3)), ((2, 5, 3), (2, 4, 3)), ((5, 3), (2, 4, 3)), ((2, 5, 3), (4, 3))]


@pytest.mark.parametrize("num_features", [None, 3])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_fast_squared_exponential_equals_the_derived_one(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], num_features: int | None
) -> None:
    generator = torch.Generator().manual_seed(0)
    kernel = SquaredExponential(1.7, 0.6, num_features, dtype=F64)
    first, second = (
        (5.0 + torch.randn(shape, dtype=F64, generator=generator)).requires_grad_()
        for shape in shapes
    )
    variables = [first, second, *kernel.parameters()]

    for fast, derived in [
        (kernel.cross(first, second).form(), Stationary.cross(kernel, first, second)),
        (kernel.square(first), Stationary.square(kernel, first)),
    ]:
        torch.testing.assert_close(fast, derived, rtol=1e-12, atol=1e-14)
        weights = torch.randn(fast.shape, dtype=F64, generator=generator)
        gradients = [
            torch.autograd.grad(value, variables, weights, allow_unused=True)
            for value in (fast, derived)
        ]
        for actual, expected in zip(*gradients, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-11)
