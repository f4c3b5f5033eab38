"""Sums over rows for the collapsed bound, and what they say about the outputs."""

import pytest
import torch

from deepwishart.numerics.collapsed import explained, row_sums
from deepwishart.numerics.gaussian import GaussianKernel
from deepwishart.numerics.linalg import cholesky_inverse

from .conftest import (
    assert_close,
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


def sums(K, x, y, log_height, log_lengthscale):
    K = symmetric(K)
    kernel = GaussianKernel(x, y, log_height, log_lengthscale)
    inverse = cholesky_inverse(K.detach())[1]
    return row_sums(K, inverse, kernel, targets(y.shape[-2], K.dtype))


def inputs(size, rows, kernel_batch=(), batch=()):
    return [
        positive(*kernel_batch, size=size, seed=1),
        normal(*kernel_batch, size, 2, seed=3),
        normal(*batch, rows, 2, seed=4),
        scalar(0.3),
        scalar(0.2),
    ]


@pytest.mark.parametrize("kernel_batch, batch", BATCHES)
class TestSums:
    # More than 200 rows that all samples share, and more than 1,024, are taken in parts.
    @pytest.mark.parametrize("size, rows", [(1, 1), (70, 9), (210, 40), (9, 455), (5, 2100)])
    def test_paths_agree(self, kernel_batch, batch, size, rows):
        assert_paths_agree(sums, inputs(size, rows, kernel_batch, batch))

    def test_gradcheck(self, kernel_batch, batch):
        assert_gradcheck(sums, inputs(4, 5, kernel_batch, batch))

    def test_precisions_agree(self, kernel_batch, batch):
        assert_precisions_agree(sums, inputs(30, 50, kernel_batch, batch))


def test_sums_are_what_they_are_called():
    K, x, y, *scales = inputs(6, 11, (3,), (3,))
    kernel = GaussianKernel(x, y, *scales)
    gram, products, squares = sums(K, x, y, *scales)
    A = torch.linalg.solve_triangular(torch.linalg.cholesky(K), kernel.form(), upper=False)
    torch.testing.assert_close(gram, A @ A.mT)
    torch.testing.assert_close(products, A @ targets(11, K.dtype))
    torch.testing.assert_close(squares, A.square().sum(-2))
    assert torch.equal(gram, gram.mT)
    formed = row_sums(K, cholesky_inverse(K)[1], kernel.form(), targets(11, K.dtype))
    assert_close(formed, [gram, products, squares], 1e-12)


def evidence_inputs(batch: tuple[int, ...], columns: int) -> list[torch.Tensor]:
    root, products = normal(*batch, 5, 7), normal(*batch, 5, columns, seed=1)
    return [root @ root.mT, products, 0.1 + normal(columns, seed=2).square()]


def evidence(gram, products, noise):
    return explained(symmetric(gram), products, noise, what="B")


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("columns", [1, 2])
def test_what_is_explained_is_the_determinant_and_the_quadratic_form(batch, columns):
    gram, products, noise = given = evidence_inputs(batch, columns)
    for column, variance in enumerate(noise):
        inner = torch.eye(5, dtype=torch.float64) + gram / variance
        z = products[..., column] / variance
        form = (z * torch.linalg.solve(inner, z)).sum(-1)
        expected = 0.5 * (form - torch.logdet(inner))
        torch.testing.assert_close(evidence(*given)[..., column], expected, rtol=1e-12, atol=1e-12)
    assert_gradcheck(evidence, given)
    assert_paths_agree(evidence, given)
