"""The numerical seam: factors, jitter, and clear failure."""

import contextlib

import pytest
import torch

from deepwishart.numerics import linalg

from .conftest import plain_paths


def positive_definite(*shape: int, dtype=torch.float64, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(*shape, shape[-1], generator=generator, dtype=dtype)
    eye = torch.eye(shape[-1], dtype=dtype)
    return root @ root.mT / shape[-1] + 0.5 * eye


@pytest.mark.parametrize("shape", [(1,), (5,), (70,), (3, 40), (2, 2, 4)])
def test_factor_is_the_cholesky_factor_and_its_inverse(shape):
    matrix = positive_definite(*shape)
    lower, inverse = linalg.factor(matrix)
    torch.testing.assert_close(lower @ lower.mT, matrix)
    eye = torch.eye(shape[-1], dtype=matrix.dtype).expand_as(matrix)
    torch.testing.assert_close(lower @ inverse, eye, atol=1e-12, rtol=0)
    assert bool((inverse.triu(1) == 0).all())


@pytest.mark.parametrize("shape", [(1,), (4,), (2, 5)])
def test_cholesky_and_factor_pass_gradcheck(shape):
    root = positive_definite(*shape, seed=1).requires_grad_()
    eye = torch.eye(shape[-1], dtype=torch.float64)

    def through(operation):
        return lambda r: operation(r @ r.mT + eye)

    assert torch.autograd.gradcheck(through(linalg.cholesky), root)
    assert torch.autograd.gradcheck(through(linalg.factor), root)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_jitter_grows_only_where_needed(dtype):
    singular = torch.ones(5, 5, dtype=dtype)
    fine = positive_definite(5, dtype=dtype)
    lower = linalg.cholesky(torch.stack([singular, fine]))
    assert lower.dtype == dtype
    torch.testing.assert_close(lower[1] @ lower[1].mT, fine)
    error = (lower[0] @ lower[0].mT - singular).abs().max()
    assert 0 < error < 1e3 * linalg.default_jitter(dtype)


def test_jitter_may_be_relative_to_another_matrix():
    # A conditional covariance that is all rounding: its prior says how large that is.
    tiny = 1e-9 * (torch.ones(4, 4) - 2 * torch.eye(4)).double()
    with pytest.raises(linalg.CholeskyError):
        linalg.cholesky(tiny, jitter=1e-6)
    prior = torch.eye(4, dtype=torch.float64)
    lower = linalg.cholesky(tiny, jitter=1e-6, relative_to=prior)
    torch.testing.assert_close(lower @ lower.mT, tiny + 1e-6 * prior, rtol=1e-12, atol=0)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("operation", [linalg.factor, linalg.cholesky])
def test_matrices_on_the_border_are_factorised_or_refused(compiled, operation):
    # Eigenvalues around the rounding unit: factorisations that sum in another order disagree
    # about which of these are positive definite, and so do a matrix with and without its batch.
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(200, 20, 1, generator=generator)
    matrix = torch.exp(-0.5 * (points - points.mT).square())
    with contextlib.nullcontext() if compiled else plain_paths():
        found = operation(matrix)
    lower = found if isinstance(found, torch.Tensor) else found.lower
    assert bool(lower.isfinite().all())
    assert (lower @ lower.mT - matrix).abs().max() < 1e-3
    if not isinstance(found, torch.Tensor):
        eye = torch.eye(20).expand_as(matrix)
        torch.testing.assert_close(lower @ found.inverse, eye, rtol=0, atol=1e-2)


def test_a_matrix_that_fails_only_later_gets_jitter_too():
    # The first is singular; the second passes without jitter the first time it is asked about.
    matrix = torch.stack([torch.ones(3, 3), positive_definite(3, dtype=torch.float32)])
    answers = iter(torch.tensor([[1, 0], [1, 1], [0, 1], [0, 0]]))
    (candidate,) = linalg.with_jitter(lambda tried: (tried, next(answers)), matrix)
    added = (candidate - matrix).diagonal(dim1=-2, dim2=-1).mean(-1)
    scale = matrix.diagonal(dim1=-2, dim2=-1).mean(-1)
    torch.testing.assert_close(added / scale, torch.tensor([1e-4, 1e-4]), rtol=1e-2, atol=0)


def test_gradient_flows_through_a_matrix_that_needed_jitter():
    root = torch.ones(4, 1, dtype=torch.float64, requires_grad=True)
    linalg.cholesky(root @ root.mT).sum().backward()
    assert bool(torch.isfinite(root.grad).all())


def test_an_indefinite_matrix_is_named_with_the_bound_that_was_tried():
    with pytest.raises(linalg.CholeskyError, match=r"kernel of layer 3.*1e-02.*float64") as error:
        linalg.cholesky(torch.diag(torch.tensor([1.0, -1.0])), what="the kernel of layer 3")
    assert "learning rate" in str(error.value)


def test_nan_is_reported_as_nan():
    with pytest.raises(linalg.CholeskyError, match="the prior of layer 1 contains NaN"):
        linalg.factor(torch.full((2, 2), float("nan")), what="the prior of layer 1")
