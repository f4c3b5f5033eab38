"""Moments of rows given inducing points."""

import pytest
import torch

from deepwishart._support.machine import threads
from deepwishart.numerics import gaussian
from deepwishart.numerics.gaussian import GaussianKernel
from deepwishart.numerics.linalg import cholesky_inverse
from deepwishart.numerics.rows import condition

from .conftest import (
    assert_close,
    assert_gradcheck,
    assert_paths_agree,
    assert_precisions_agree,
    normal,
    scalar,
    values_and_gradients,
)

BATCHES = [((), ()), ((), (3,)), ((3,), (3,)), ((2, 2), (2, 2))]  # of kernels, of weights


def lazily(H, x, y, log_height, log_lengthscale, w):
    """A kernel that the operation forms itself."""
    kernel = GaussianKernel(x, y, log_height, log_lengthscale)
    return condition(H, kernel, log_height.exp().expand(y.shape[:-1]), w)


def lazy_inputs(size, rows, kernel_batch=(), batch=()):
    return [
        0.3 * normal(*kernel_batch, size, size, seed=1).tril() / size**0.5,
        normal(*kernel_batch, size, 3, seed=2) + 5,
        normal(*kernel_batch, rows, 3, seed=3) + 5,
        scalar(1.5),
        scalar(0.3),
        normal(*batch, size, 2, seed=4),
    ]


def ready_inputs(size, rows, kernel_batch=(), batch=()):
    return [
        normal(*kernel_batch, size, size, seed=1) / size,
        normal(*kernel_batch, size, rows, seed=2) / 3,
        normal(*kernel_batch, rows, seed=3).square() + 9,
        normal(*batch, size, 2, seed=4),
    ]


@pytest.mark.parametrize("function, inputs", [(lazily, lazy_inputs), (condition, ready_inputs)])
class TestBothKernels:
    @pytest.mark.parametrize("kernel_batch, batch", BATCHES)
    @pytest.mark.parametrize("size, rows", [(1, 1), (70, 9), (210, 40)])
    def test_paths_agree(self, function, inputs, kernel_batch, batch, size, rows):
        assert_paths_agree(function, inputs(size, rows, kernel_batch, batch))

    @pytest.mark.parametrize("kernel_batch, batch", BATCHES)
    def test_gradcheck(self, function, inputs, kernel_batch, batch):
        assert_gradcheck(function, inputs(4, 5, kernel_batch, batch))

    @pytest.mark.parametrize("kernel_batch, batch", BATCHES)
    def test_precisions_agree(self, function, inputs, kernel_batch, batch):
        assert_precisions_agree(function, inputs(30, 50, kernel_batch, batch))

    @pytest.mark.parametrize("kernel_batch, batch", BATCHES)
    def test_rows_in_pieces(self, function, inputs, kernel_batch, batch, monkeypatch):
        given = inputs(7, 30, kernel_batch, batch)
        whole = function(*given)
        monkeypatch.setattr(gaussian, "_CACHED_ROWS", 8)
        pieces = function(*given)
        for first, second in zip(pieces, whole, strict=True):
            torch.testing.assert_close(first, second, rtol=1e-13, atol=1e-13)
        assert_paths_agree(function, given)


class TestRowsOfOneKernelOnSeveralThreads:
    """Where all samples share the kernel matrix, threads share its rows."""

    @pytest.mark.parametrize("batch", [(), (3,)])
    @pytest.mark.parametrize("rows", [399, 400, 455, 1203])
    def test_paths_agree(self, batch, rows):
        assert_paths_agree(lazily, lazy_inputs(9, rows, (), batch))

    def test_precisions_agree(self):
        assert_precisions_agree(lazily, lazy_inputs(9, 1203, (), (3,)))

    def test_threads_change_no_more_than_rounding(self):
        """BLAS orders its sums as it likes, by processor, shape and number of threads; a mistake in
        dividing the rows would be of the size of a result."""
        given = lazy_inputs(20, 1203, (), (3,))
        with threads(1):
            alone = values_and_gradients(lazily, given)
        with threads(2):
            shared = values_and_gradients(lazily, given)
        assert_close(shared, alone, 1e-12)


@pytest.mark.parametrize("native_batch", [(), (2,)])
def test_conditional_variance_never_vanishes(native_batch):
    kernel = torch.ones(*native_batch, 3, 3, dtype=torch.float64)
    jitter = 1e-14 * torch.eye(3, dtype=torch.float64)
    _, inverse, _ = cholesky_inverse(kernel + jitter)
    own = kernel.diagonal(dim1=-2, dim2=-1)
    _, variance = condition(inverse, kernel, own, torch.zeros_like(kernel))
    assert bool((variance > 0).all())
