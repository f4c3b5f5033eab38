"""Sums, products and multiples of kernels."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from deepwishart.kernels import (
    GramInducing,
    GramRows,
    Kernel,
    Linear,
    Matern12,
    Product,
    Scale,
    SquaredExponential,
    Sum,
)
from deepwishart.numerics.gaussian import formed

F64 = torch.float64


@pytest.fixture
def points() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(n, 3, dtype=F64, generator=generator) for n in (5, 4))
    return first, second


@pytest.mark.parametrize(
    ("combine", "kind"), [(operator.add, Sum), (operator.mul, Product)], ids=["sum", "product"]
)
def test_operators_act_entry_by_entry(
    points: tuple[Tensor, Tensor], combine: Callable[[Any, Any], Any], kind: type
) -> None:
    first, second = SquaredExponential(1.5, 0.7, dtype=F64), Linear(0.3, dtype=F64)
    kernel: Kernel = combine(first, second)
    assert type(kernel) is kind
    x, y = points
    inducing, rows = GramInducing(x @ x.mT), GramRows(x @ y.mT, y.square().sum(-1))
    for form in (
        lambda k: k.square(x),
        lambda k: formed(k.cross(x, y)),
        lambda k: k.diagonal(x),
        lambda k: k.square(inducing),
        lambda k: k.cross(inducing, rows),
        lambda k: k.diagonal(rows),
    ):
        expected = combine(form(first), form(second))
        torch.testing.assert_close(form(kernel), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("number", [2, 2.0])
def test_multiples_from_either_side(points: tuple[Tensor, Tensor], number: float) -> None:
    kernel = Matern12(dtype=F64)
    for scaled in (number * kernel, kernel * number):
        assert type(scaled) is Scale
        assert scaled.log_height.dtype == F64
        expected = 2.0 * kernel.square(points[1])
        torch.testing.assert_close(scaled.square(points[1]), expected)


def test_more_than_two_parts(points: tuple[Tensor, Tensor]) -> None:
    parts = [SquaredExponential(dtype=F64), Linear(dtype=F64), Matern12(dtype=F64)]
    matrices = torch.stack([part.square(points[1]) for part in parts])
    torch.testing.assert_close(Sum(*parts).square(points[1]), matrices.sum(0))
    torch.testing.assert_close(Product(*parts).square(points[1]), matrices.prod(0))
    assert len(list((parts[0] + parts[0]).parameters())) == 2  # shared, not copied
