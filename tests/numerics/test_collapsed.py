"""Sums over rows for the collapsed bound."""

import pytest
import torch

from deepwishart.numerics import batches
from deepwishart.numerics.cholesky import cholesky_inverse
from deepwishart.numerics.collapsed import row_sums
from deepwishart.numerics.gaussian import GaussianKernel

from .conftest import (
    assert_gradcheck,
    assert_paths_agree,
    assert_precisions_agree,
    normal,
    positive,
    scalar,
    symmetric,
)

BATCHES = [((), ()), ((3,), (3,)), ((), (3,)), ((2, 2), (2, 2))]  # of K_ii, of the rows


def targets(rows, dtype):
    return normal(rows, 2, seed=6).to(dtype)


def inverse_of(K):
    return cholesky_inverse(K.detach())[1]


def ready(K, cross):
    K = symmetric(K)
    return row_sums(K, inverse_of(K), cross, targets(cross.shape[-1], K.dtype))


def lazily(K, x, y, log_height, log_lengthscale):
    K = symmetric(K)
    kernel = GaussianKernel(x, y, log_height, log_lengthscale)
    return row_sums(K, inverse_of(K), kernel, targets(y.shape[-2], K.dtype))


def ready_inputs(size, rows, kernel_batch=(), batch=()):
    return [positive(*kernel_batch, size=size, seed=1), normal(*batch, size, rows, seed=2)]


def lazy_inputs(size, rows, kernel_batch=(), batch=()):
    return [
        positive(*kernel_batch, size=size, seed=1),
        normal(*kernel_batch, size, 2, seed=3),
        normal(*batch, rows, 2, seed=4),
        scalar(0.3),
        scalar(0.2),
    ]


@pytest.mark.parametrize("function, inputs", [(lazily, lazy_inputs), (ready, ready_inputs)])
class TestBothKernels:
    @pytest.mark.parametrize("kernel_batch, batch", BATCHES)
    @pytest.mark.parametrize("size, rows", [(1, 1), (5, 30), (70, 9), (210, 40)])
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
        monkeypatch.setattr(batches, "CACHED_ROWS", 8)
        for first, second in zip(function(*given), whole, strict=True):
            torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-12)
        assert_paths_agree(function, given)


def test_sums_are_what_they_are_called():
    K, cross = ready_inputs(6, 11, (3,), (3,))
    gram, products = ready(K, cross)
    A = torch.linalg.solve_triangular(torch.linalg.cholesky(K), cross, upper=False)
    torch.testing.assert_close(gram, A @ A.mT)
    torch.testing.assert_close(products, A @ targets(11, K.dtype))
    assert torch.equal(gram, gram.mT)
