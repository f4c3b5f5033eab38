"""Sums, products and multiples of kernels, and the blocks that flow through them."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

from deepwishart.blocks import Blocks, Features
from deepwishart.kernels import (
    Kernel,
    Linear,
    Matern12,
    Product,
    Scale,
    SquaredExponential,
    Sum,
)

F64 = torch.float64


@pytest.fixture
def features() -> Features:
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(n, 3, dtype=F64, generator=generator) for n in (5, 4))
    return Features(first, second)


@pytest.mark.parametrize(
    ("combine", "kind"), [(operator.add, Sum), (operator.mul, Product)], ids=["sum", "product"]
)
def test_operators_act_entry_by_entry(
    features: Features, combine: Callable[[Any, Any], Any], kind: type
) -> None:
    first, second = SquaredExponential(1.5, 0.7, dtype=F64), Linear(0.3, dtype=F64)
    kernel: Kernel = combine(first, second)
    three: list[Kernel] = [kernel, first, second]
    assert type(kernel) is kind
    sources: list[Features | Blocks] = [features, Blocks.from_features(features, joint=True)]
    for source in sources:
        blocks, left, right = (k(source, joint=True) for k in three)
        for name in ("ii", "it", "tt"):
            expected = combine(getattr(left, name), getattr(right, name))
            torch.testing.assert_close(getattr(blocks, name), expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("number", [2, 2.0])
def test_multiples_from_either_side(features: Features, number: float) -> None:
    kernel = Matern12(dtype=F64)
    for scaled in (number * kernel, kernel * number):
        assert type(scaled) is Scale
        assert scaled.log_height.dtype == F64
        expected = 2.0 * kernel.square(features.data)
        torch.testing.assert_close(scaled.square(features.data), expected)


def test_more_than_two_parts(features: Features) -> None:
    parts = [SquaredExponential(dtype=F64), Linear(dtype=F64), Matern12(dtype=F64)]
    matrices = [part.square(features.data) for part in parts]
    total = Sum(*parts).square(features.data)
    torch.testing.assert_close(total, matrices[0] + matrices[1] + matrices[2])
    product = Product(*parts).square(features.data)
    torch.testing.assert_close(product, matrices[0] * matrices[1] * matrices[2])


def test_a_kernel_used_twice_shares_its_parameters() -> None:
    kernel = SquaredExponential()
    assert len(list((kernel + kernel).parameters())) == 2


@pytest.mark.parametrize("other", ["linear", None, torch.ones(2)], ids=str)
def test_operators_refuse_what_is_not_a_kernel(other: Any) -> None:
    with pytest.raises(TypeError):
        Linear() + other
    with pytest.raises(TypeError):
        Linear() * other


def test_combinations_refuse_what_is_not_a_kernel() -> None:
    with pytest.raises(ValueError, match="Sum combines kernels; got nothing"):
        Sum()
    with pytest.raises(ValueError, match="Product combines kernels; got Linear, str"):
        Product(Linear(), "matern12")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="height must be positive"):
        -1.0 * Linear()


def test_gram_blocks(features: Features) -> None:
    everything = torch.cat(features)
    gram = everything @ everything.T
    for joint in (False, True):
        blocks = Blocks.from_features(features, joint)
        torch.testing.assert_close(blocks.ii, gram[:5, :5])
        torch.testing.assert_close(blocks.it, gram[:5, 5:])
        torch.testing.assert_close(blocks.tt, gram[5:, 5:] if joint else gram[5:, 5:].diagonal())
        torch.testing.assert_close(blocks.diagonal, gram[5:, 5:].diagonal())


def test_gram_blocks_of_one_inducing_set_and_a_batch(features: Features) -> None:
    batch = torch.stack([features.data, 2.0 * features.data])
    blocks = Linear(bias=0.0, dtype=F64)(Features(features.inducing, batch))
    assert (blocks.ii.shape, blocks.it.shape, blocks.tt.shape) == ((5, 5), (2, 5, 4), (2, 4))
    torch.testing.assert_close(blocks.it[1], 2.0 * blocks.it[0])


@pytest.mark.parametrize(
    ("shapes", "joint", "message"),
    [
        (((3, 3), (2, 4), (4,)), False, "ii must be P x P"),
        (((2, 3), (2, 4), (4,)), False, "ii must be P x P"),
        (((2, 2), (2, 4), (5,)), False, r"tt must end in \(4,\) when joint=False"),
        (((2, 2), (2, 4), (3, 4)), True, r"tt must end in \(4, 4\) when joint=True"),
        (((2, 2), (2, 4), (4,)), True, "Blocks needs ii"),
        (((2, 2), (4,), (4,)), False, "Blocks needs ii"),
    ],
)
def test_blocks_that_do_not_fit(
    shapes: tuple[tuple[int, ...], ...], joint: bool, message: str
) -> None:
    ii, it, tt = (torch.zeros(shape) for shape in shapes)
    with pytest.raises(ValueError, match=message):
        Blocks(ii, it, tt, joint)


def test_joint_cannot_be_made_from_a_diagonal(features: Features) -> None:
    gram = Blocks.from_features(features)
    with pytest.raises(ValueError, match="hold only its diagonal"):
        SquaredExponential()(gram, joint=True)
