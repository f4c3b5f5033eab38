"""Kernels by name, and the errors that meet a user."""

from collections.abc import Callable

import pytest
import torch

from deepwishart import kernels
from deepwishart.kernels import (
    ArcCosine,
    GramInducing,
    GramRows,
    Kernel,
    Linear,
    Matern12,
    Product,
    RationalQuadratic,
    SquaredExponential,
    Sum,
)


@pytest.mark.parametrize("name", kernels.names())
def test_make_has_lengthscales_where_asked(name: str) -> None:
    kernel = kernels.make(name, dtype=torch.float64)
    assert {parameter.dtype for parameter in kernel.parameters()} == {torch.float64}
    assert not kernel.needs_features
    kernel = kernels.make(name, num_features=4)
    if isinstance(kernel, ArcCosine):
        assert kernel.num_features is None
    else:
        assert kernel.num_features == 4
        assert kernel.get_parameter("log_lengthscale").shape == (4,)


def test_a_given_kernel_is_copied() -> None:
    given = SquaredExponential(height=3.0)
    made = kernels.make(given, num_features=7, dtype=torch.float64)
    assert isinstance(made, SquaredExponential)
    assert made.log_height is not given.log_height
    assert made.log_height.dtype == torch.float64
    assert given.log_height.dtype == torch.float32
    assert made.height.item() == pytest.approx(3.0)
    assert made.num_features is None


@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(num_features=3),
        Linear(num_features=3),
        Matern12(num_inputs=2),
        2.0 * (Linear() + Linear() * SquaredExponential(num_features=3)),
    ],
)
def test_kernels_of_single_columns_refuse_gram_matrices_and_say_why(kernel: Kernel) -> None:
    inducing, rows = GramInducing(torch.ones(2, 2)), GramRows(torch.ones(2, 4), torch.ones(4))
    assert kernel.needs_features
    for call in (kernel.square, kernel.diagonal, lambda points: kernel.cross(points, rows)):
        with pytest.raises(ValueError, match="summed the features away; use num_features=None"):
            call(inducing)


def ard(size: int) -> Kernel:
    return SquaredExponential(num_features=size)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: kernels.make("mattern32"), r"squared_exponential.*Did you mean 'matern32'"),
        (lambda: kernels.make("linear", num_inputs=2), "and 2 inputs is stationary: use one of"),
        (lambda: kernels.make(Matern12(), num_inputs=2), "an object with num_inputs=2; got Matern"),
        (lambda: Matern12(num_features=3, num_inputs=2), "leave num_features=None"),
        (lambda: ard(0), "num_features must be None or an integer of"),
        (lambda: ard(2) + ard(3), r"different num_features: \[2, 3\]"),
        (lambda: ard(3).square(torch.ones(5, 2)), r"num_features=3, .* shape \(5, 2\)"),
        (lambda: Matern12(num_inputs=2).square(torch.ones(5, 2)), "features come first, inputs af"),
        (lambda: SquaredExponential(height=-1.0), "height must be a positive number"),
        (lambda: Matern12(lengthscale=0.0), "lengthscale must be a positive number"),
        (lambda: RationalQuadratic(alpha=float("nan")), "alpha must be a positive number"),
        (lambda: Linear(bias=float("inf")), "bias must be a positive number"),
        (lambda: -1.0 * Linear(), "height must be a positive number"),
        (lambda: Sum(), "Sum combines kernels; got nothing"),
        (lambda: Product(Linear(), "matern12"), "Product combines kernels; got Linear, str"),
    ],
)
def test_what_is_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_print_shows_values_not_logs() -> None:
    kernel = SquaredExponential(height=2.0, num_features=2)
    assert repr(kernel) == "SquaredExponential(height=2, lengthscale=[1, 1])"
    assert repr(ArcCosine(bias=0.0)) == "ArcCosine(height=1)"
    kernel = kernels.make("matern12", num_inputs=2)
    assert repr(kernel) == "Matern12(height=1, lengthscale=1, input_lengthscale=[1, 1])"
