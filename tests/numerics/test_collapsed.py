"""Sums over rows for the collapsed bound."""

import pytest
import torch

from deepwishart.numerics import gaussian
from deepwishart.numerics.collapsed import explained, row_sums
from deepwishart.numerics.gaussian import GaussianKernel
from deepwishart.numerics.linalg import cholesky_inverse

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


def sums_over_rows(batch: tuple[int, ...], columns: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(*batch, 5, 7, generator=generator, dtype=torch.float64)
    products = torch.randn(*batch, 5, columns, generator=generator, dtype=torch.float64)
    noise = 0.1 + torch.rand(columns, generator=generator, dtype=torch.float64)
    return [root @ root.mT, products, noise]


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("columns", [1, 2])
def test_it_is_the_determinant_and_the_quadratic_form(batch, columns):
    gram, products, noise = sums_over_rows(batch, columns)
    for column, own in enumerate(noise):
        inner = torch.eye(5, dtype=torch.float64) + gram / own
        z = products[..., column] / own
        form = (z * torch.linalg.solve(inner, z)).sum(-1)
        expected = 0.5 * (form - torch.logdet(inner))
        found = explained(gram, products, noise, what="B")[..., column]
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("columns", [1, 2])
def test_its_gradient(batch, columns):
    leaves = [value.requires_grad_() for value in sums_over_rows(batch, columns)]

    def symmetrised(gram, products, noise):
        return explained(0.5 * (gram + gram.mT), products, noise, what="B")

    assert torch.autograd.gradcheck(symmetrised, leaves)
