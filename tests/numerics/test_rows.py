"""Moments and draws of rows given inducing points."""

import pytest
import torch

from deepwishart._support.machine import threads
from deepwishart.numerics.gaussian import GaussianKernel, gaussian_square
from deepwishart.numerics.linalg import cholesky_inverse
from deepwishart.numerics.rows import Conditional, condition, draw_rows

from .conftest import (
    assert_close,
    assert_gradcheck,
    assert_paths_agree,
    assert_precisions_agree,
    normal,
    positive,
    scalar,
    symmetric,
    values_and_gradients,
)

# Whether kernel and weights have a batch.
BATCHES = [((), ()), ((), (3,)), ((3,), (3,)), ((2, 2), (2, 2))]


def own(kernel):
    return kernel.log_height.exp().expand(kernel.right.shape[:-1])


def moments(H, x, y, log_height, log_lengthscale, w):
    kernel = GaussianKernel(x, y, log_height, log_lengthscale)
    return condition(H, kernel, own(kernel), w)


def moments_inputs(size, rows, kernel_batch=(), batch=()):
    return [
        0.3 * normal(*kernel_batch, size, size, seed=1) / size,
        normal(*kernel_batch, size, 3, seed=2) + 5,
        normal(*kernel_batch, rows, 3, seed=3) + 5,
        scalar(1.5),
        scalar(0.3),
        normal(*batch, size, 2, seed=4),
    ]


def drawn(K, x, y, log_height, log_lengthscale, F):
    """Rows as in training: from K and F, everything between them included."""
    K = symmetric(K)
    given = Conditional.of(K, cholesky_inverse(K)[1], F)
    kernel = GaussianKernel(x, y, log_height, log_lengthscale)
    noise = normal(*F.shape[:-2], y.shape[-2], F.shape[-1], seed=77).to(F.dtype)
    return draw_rows(given, kernel, own(kernel), noise)


def drawn_inputs(size, rows, kernel_batch=(), batch=()):
    # Diagonals far above the kernel's height: no variance is floored.
    return [
        3.0 * positive(*kernel_batch, size=size, seed=1),
        normal(*kernel_batch, size, 2, seed=3),
        normal(*kernel_batch, rows, 2, seed=4),
        scalar(0.3 if size < 20 else -2.5),
        scalar(0.2),
        normal(*batch, size, 4, seed=2),
    ]


@pytest.mark.parametrize("kernel_batch, batch", BATCHES)
@pytest.mark.parametrize("function, inputs", [(moments, moments_inputs), (drawn, drawn_inputs)])
class TestMomentsAndDraws:
    # More than 200 rows that all samples share, and more than 1,024, are taken in parts.
    @pytest.mark.parametrize("size, rows", [(1, 1), (70, 9), (210, 40), (9, 455), (5, 2100)])
    def test_paths_agree(self, function, inputs, kernel_batch, batch, size, rows):
        assert_paths_agree(function, inputs(size, rows, kernel_batch, batch))

    def test_gradcheck(self, function, inputs, kernel_batch, batch):
        assert_gradcheck(function, inputs(4, 5, kernel_batch, batch))

    # The form differs: a factor in single precision, its square in double.
    def test_precisions_agree(self, function, inputs, kernel_batch, batch):
        assert_precisions_agree(function, inputs(30, 50, kernel_batch, batch))


def test_threads_change_no_more_than_rounding():
    """BLAS orders its sums as it likes, by processor, shape and number of threads; a mistake in
    dividing the rows would be of the size of a result."""
    given = moments_inputs(20, 1203, (), (3,))
    with threads(1):
        alone = values_and_gradients(moments, given)
    with threads(2):
        shared = values_and_gradients(moments, given)
    assert_close(shared, alone, 1e-12)


def test_a_kernel_that_is_formed_has_the_same_moments():
    H, x, y, log_height, log_lengthscale, w = moments_inputs(7, 9, (3,), (3,))
    kernel = GaussianKernel(x, y, log_height, log_lengthscale)
    found = condition(H, kernel.form(), own(kernel), w)
    assert_close(found, condition(H, kernel, own(kernel), w), 1e-12)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_conditional_variance_never_vanishes(batch):
    kernel = torch.ones(*batch, 3, 3, dtype=torch.float64)
    jitter = 1e-14 * torch.eye(3, dtype=torch.float64)
    _, inverse, _ = cholesky_inverse(kernel + jitter)
    own = kernel.diagonal(dim1=-2, dim2=-1)
    _, variance = condition(inverse, kernel, own, torch.zeros_like(kernel))
    assert bool((variance > 0).all())


def test_floored_variances_have_no_slope():
    # A row at an inducing point of an almost noiseless kernel has the smallest variance there is.
    x, zero = normal(2, 6, 1, seed=3), scalar(0.0)
    K = gaussian_square(x, zero, zero - 3.0) * (1 + 1e-13)
    root = normal(2, 6, 2, seed=4)
    given = Conditional.of(K, cholesky_inverse(K)[1], root)
    kernel = GaussianKernel(x, x.clone().requires_grad_(), zero, zero - 3.0)
    rows = draw_rows(given, kernel, own(kernel), normal(2, 6, 2, seed=5))
    torch.testing.assert_close(rows, root, rtol=0, atol=1e-5)
    (gradient,) = torch.autograd.grad(rows.sum(), kernel.right)
    assert bool(gradient.isfinite().all())
