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
    RationalQuadratic,
    SquaredExponential,
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


def test_relu_is_arc_cosine_of_order_one() -> None:
    relu = kernels.make("relu")
    assert isinstance(relu, ArcCosine)
    assert relu.order == 1
    assert repr(relu) == repr(kernels.make("arc_cosine1"))


def test_unknown_name_suggests_and_lists() -> None:
    with pytest.raises(ValueError, match=r"squared_exponential.*Did you mean 'matern32'"):
        kernels.make("mattern32")
    with pytest.raises(ValueError, match="Unknown kernel 'xyz'; choose from arc_cosine0"):
        kernels.make("xyz")


def test_a_given_kernel_is_copied() -> None:
    given = SquaredExponential(height=3.0)
    made = kernels.make(given, num_features=7, dtype=torch.float64)
    assert isinstance(made, SquaredExponential)
    assert made.log_height is not given.log_height
    assert made.log_height.dtype == torch.float64
    assert given.log_height.dtype == torch.float32
    assert made.height.item() == pytest.approx(3.0)
    assert made.num_features is None


ARD: dict[str, Kernel] = {
    "itself": SquaredExponential(num_features=3),
    "linear": Linear(num_features=3),
    "sum": Matern12() + SquaredExponential(num_features=3),
    "product": Linear(num_features=3) * Linear(),
    "scale": 2.0 * SquaredExponential(num_features=3),
    "nested": 2.0 * (Linear() + Linear() * SquaredExponential(num_features=3)),
}


@pytest.mark.parametrize("name", ARD)
def test_ard_refuses_gram_matrices_and_says_why(name: str) -> None:
    kernel = ARD[name]
    inducing, rows = GramInducing(torch.ones(2, 2)), GramRows(torch.ones(2, 4), torch.ones(4))
    assert kernel.needs_features
    for call in (kernel.square, kernel.diagonal, lambda points: kernel.cross(points, rows)):
        with pytest.raises(ValueError, match="summed the features away; use num_features=None"):
            call(inducing)


def test_inputs_are_for_stationary_kernels_with_one_lengthscale() -> None:
    with pytest.raises(ValueError, match="features and 2 inputs is stationary: use one of"):
        kernels.make("linear", num_inputs=2)
    with pytest.raises(ValueError, match="or an object with num_inputs=2; got Matern12"):
        kernels.make(Matern12(num_inputs=3), num_inputs=2)
    with pytest.raises(ValueError, match="leave num_features=None"):
        Matern12(num_features=3, num_inputs=2)
    with pytest.raises(ValueError, match=r"different num_inputs: \[2, 3\]"):
        Matern12(num_inputs=2) + Matern12(num_inputs=3)
    with pytest.raises(ValueError, match="features come first, inputs after them"):
        Matern12(num_inputs=2).square(torch.ones(5, 2))
    kernel = kernels.make("matern12", num_inputs=2)
    assert repr(kernel) == "Matern12(height=1, lengthscale=1, input_lengthscale=[1, 1])"
    with pytest.raises(ValueError, match="cannot work from a Gram matrix"):
        kernel.square(GramInducing(torch.ones(2, 2)))


@pytest.mark.parametrize("kernel", [SquaredExponential(num_features=3), Linear(num_features=3)])
def test_ard_refuses_another_number_of_features(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match=r"num_features=3, .* shape \(5, 2\)"):
        kernel.square(torch.ones(5, 2))


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (SquaredExponential, "height"),
        (Matern12, "lengthscale"),
        (RationalQuadratic, "alpha"),
        (Linear, "bias"),
    ],
)
def test_parameters_must_be_positive(kind: type[Kernel], name: str, value: float) -> None:
    if (name, value) == ("bias", 0.0):
        return
    with pytest.raises(ValueError, match=f"{name} must be a positive number"):
        kind(**{name: value})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ArcCosine(order=2), r"order 0 \(steps\) or 1 \(ReLUs\); got order=2"),
        (lambda: SquaredExponential(num_features=0), "num_features must be None or an integer of"),
        (
            lambda: SquaredExponential(num_features=2) + SquaredExponential(num_features=3),
            r"different num_features: \[2, 3\]",
        ),
    ],
)
def test_other_bad_arguments(make: Callable[[], Kernel], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


def test_print_shows_values_not_logs() -> None:
    kernel = SquaredExponential(height=2.0, num_features=2)
    assert repr(kernel) == "SquaredExponential(height=2, lengthscale=[1, 1])"
    assert repr(ArcCosine(0, bias=0.0)) == "ArcCosine(order=0, height=1)"
