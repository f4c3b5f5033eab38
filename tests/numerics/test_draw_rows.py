"""Draws of rows given inducing points."""

import pytest
import torch

from deepwishart.numerics import gaussian
from deepwishart.numerics.gaussian import GaussianKernel, gaussian_square
from deepwishart.numerics.linalg import cholesky_inverse
from deepwishart.numerics.rows import Conditional, draw_rows

from .conftest import (
    assert_gradcheck,
    assert_paths_agree,
    assert_precisions_agree,
    normal,
    positive,
    scalar,
    symmetric,
)


def drawn(K, F, x, y, log_height, log_lengthscale):
    """Rows as in training: from K and F, everything between them included."""
    K = symmetric(K)
    _, inverse, _ = cholesky_inverse(K)
    given = Conditional.of(K, inverse, F)
    epsilon = normal(F.shape[0], y.shape[-2], F.shape[-1], seed=77).to(F.dtype)
    kernel = GaussianKernel(x, y, log_height, log_lengthscale)
    return draw_rows(given, kernel, log_height.exp().expand(y.shape[:-1]), epsilon)


def inputs(size, width, rows, *batch):
    # Diagonals far above the kernel's height: no variance is floored.
    return [
        3.0 * positive(*batch, size=size, seed=1),
        normal(3, size, width, seed=2),
        normal(*batch, size, 2, seed=3),
        normal(*batch, rows, 2, seed=4),
        scalar(0.3 if size < 20 else -2.5),
        scalar(0.2),
    ]


SHAPES = [(1, 1, 1), (5, 3, 40), (70, 4, 9), (210, 2, 30)]


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("size, width, rows", SHAPES)
def test_paths_agree(batch, size, width, rows):
    assert_paths_agree(drawn, inputs(size, width, rows, *batch))


@pytest.mark.parametrize("batch", [(), (3,)])
def test_gradcheck(batch):
    assert_gradcheck(drawn, inputs(4, 2, 5, *batch))


@pytest.mark.parametrize("batch", [(), (3,)])
def test_precisions_agree(batch):
    # The form differs: a triangular factor in single precision, an inverse in double.
    assert_precisions_agree(drawn, inputs(30, 4, 50, *batch))


@pytest.mark.parametrize("batch", [(), (3,)])
def test_rows_in_pieces(batch, monkeypatch):
    given = inputs(5, 3, 40, *batch)
    whole = drawn(*given)
    monkeypatch.setattr(gaussian, "_CACHED_ROWS", 16)
    torch.testing.assert_close(drawn(*given), whole, rtol=1e-13, atol=1e-13)
    assert_paths_agree(drawn, given)


def test_one_noise_for_all_rows():
    x, y = normal(3, 5, 2, seed=1), normal(3, 8, 2, seed=2)
    K = positive(3, size=5, seed=3)
    given = Conditional.of(K, cholesky_inverse(K)[1], normal(3, 5, 2, seed=4))
    kernel = GaussianKernel(x, y, scalar(0.0), scalar(0.0))
    own = torch.ones(3, 8, dtype=torch.float64)
    epsilon = normal(3, 1, 2, seed=5)
    shared = draw_rows(given, kernel, own, epsilon)
    torch.testing.assert_close(shared, draw_rows(given, kernel, own, epsilon.expand(3, 8, 2)))


def test_floored_variances_have_no_slope():
    # A row at an inducing point of an almost noiseless kernel has the smallest variance there is.
    x, zero = normal(2, 6, 1, seed=3), scalar(0.0)
    K = gaussian_square(x, zero, zero - 3.0) * (1 + 1e-13)
    root = normal(2, 6, 2, seed=4)
    given = Conditional.of(K, cholesky_inverse(K)[1], root)
    kernel = GaussianKernel(x, x.clone().requires_grad_(), zero, zero - 3.0)
    own = torch.ones(2, 6, dtype=torch.float64)
    rows = draw_rows(given, kernel, own, normal(2, 6, 2, seed=5))
    torch.testing.assert_close(rows, root, rtol=0, atol=1e-5)
    (gradient,) = torch.autograd.grad(rows.sum(), kernel.right)
    assert bool(gradient.isfinite().all())
