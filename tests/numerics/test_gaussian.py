"""The squared exponential kernel as a matrix."""

import functools

import pytest
import torch

from deepwishart.numerics.gaussian import GaussianKernel, gaussian_square
from deepwishart.numerics.rows import condition

from .conftest import (
    assert_gradcheck,
    assert_paths_agree,
    assert_precisions_agree,
    normal,
    plain_paths,
    scalar,
)


def inputs(*batch, size):
    return [normal(*batch, size, 3, seed=2) - 7, scalar(-0.4), scalar(0.2)]


@pytest.mark.parametrize("batch", [(), (2, 2)])
@pytest.mark.parametrize("size", [1, 5, 70, 210])
@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_paths_agree(batch, size, jitter):
    square = functools.partial(gaussian_square, jitter=jitter)
    assert_paths_agree(square, inputs(*batch, size=size))


def test_gradcheck():
    assert_gradcheck(functools.partial(gaussian_square, jitter=0.1), inputs(2, size=4))


def test_precisions_agree():
    assert_precisions_agree(functools.partial(gaussian_square, jitter=0.1), inputs(2, size=30))


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_matrices_are_exactly_symmetric_with_an_exact_diagonal(native, dtype):
    x, height, lengthscale = (t.to(dtype) for t in inputs(2, size=40))
    if native:
        K = gaussian_square(x, height, lengthscale)
    else:
        with plain_paths():
            K = gaussian_square(x, height, lengthscale)
    assert torch.equal(K, K.mT)
    assert bool((K.diagonal(dim1=-2, dim2=-1) == K[0, 0, 0]).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_height", [-50.0, 0.0, 50.0])
def test_the_exponential_is_accurate_over_its_whole_range(dtype, log_height):
    # Distances from 0 to far beyond underflow, against PyTorch's exponential.
    x = torch.zeros(2, 1, 1, dtype=dtype)
    y = torch.linspace(0, 60, 5000, dtype=dtype).reshape(1, -1, 1).repeat(2, 1, 1)
    height = torch.tensor(log_height, dtype=dtype)
    kernel = GaussianKernel(x, y, height, torch.zeros_like(height))
    one = torch.ones(2, 1, 1, dtype=dtype)
    mean, _ = condition(one, kernel, height.exp().expand(2, 5000), one)
    exact = (log_height - 0.5 * y.double().square()).exp()[..., 0]
    normal_range = exact > 1e3 * torch.finfo(dtype).tiny
    error = ((mean[..., 0].double() - exact) / exact)[normal_range].abs().max()
    # The exponent itself is rounded to dtype, at magnitudes up to a few hundred.
    assert error < 400 * torch.finfo(dtype).eps
    assert bool((mean[..., 0][~normal_range] <= 1e4 * torch.finfo(dtype).tiny).all())


def test_nan_is_not_hidden():
    K = gaussian_square(torch.full((1, 2, 1), float("nan")), torch.zeros(()), torch.zeros(()))
    assert bool(K[0, 0, 1].isnan())
