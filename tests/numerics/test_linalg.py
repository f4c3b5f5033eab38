"""The numerical seam: factors with their inverses, jitter, and clear failure."""

import pytest
import torch

from deepwishart.numerics import linalg

from .conftest import (
    assert_gradcheck,
    assert_paths_agree,
    assert_precisions_agree,
    normal,
    positive,
    symmetric,
)


def factors(use):
    def function(root):
        matrix = root @ root.mT + torch.eye(root.shape[-1], dtype=root.dtype)
        lower, inverse, failed = linalg.cholesky_inverse(matrix)
        assert not failed.any()
        return {"lower": [lower], "inverse": [inverse], "both": [lower, inverse]}[use]

    return function


@pytest.mark.parametrize("use", ["lower", "inverse", "both"])
class TestFactors:
    @pytest.mark.parametrize("batch", [(), (2, 2)])
    @pytest.mark.parametrize("size", [1, 70, 210])  # both sides of the switch to LAPACK
    def test_paths_agree(self, batch, size, use):
        assert_paths_agree(factors(use), [normal(*batch, size, size, seed=3) / size**0.5])

    def test_gradcheck(self, use):
        assert_gradcheck(factors(use), [normal(2, 4, 4)])

    @pytest.mark.parametrize("size", [5, 210])
    def test_precisions_agree(self, size, use):
        assert_precisions_agree(factors(use), [normal(2, size, size, seed=4) / size**0.5])


@pytest.mark.parametrize("size", [1, 2, 50, 150, 260])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_factors_are_exactly_triangular_and_invert_each_other(size, dtype):
    matrix = positive(3, size=size, seed=size).to(dtype)
    lower, inverse = linalg.factor(matrix)
    eps = torch.finfo(dtype).eps
    assert (lower @ lower.mT - matrix).abs().max() < 40 * eps
    assert (lower @ inverse - torch.eye(size, dtype=dtype)).abs().max() < 40 * eps
    assert bool((lower.triu(1) == 0).all()) and bool((inverse.triu(1) == 0).all())


@pytest.mark.parametrize("size", [3, 200])
def test_failures_are_told_matrix_by_matrix(size):
    good = positive(size=size, seed=1)
    bad, nan = good.clone(), good * float("nan")
    bad[1, 1] = -1.0
    *_, failed = linalg.cholesky_inverse(torch.stack([good, bad, nan]))
    assert failed.tolist()[0] == 0 and failed.tolist()[1] == 2 and failed.tolist()[2] != 0


def objective(matrix):
    return linalg.cholesky_inverse(matrix)[1].square().sum()


def slope_squared(matrix):
    return torch.func.grad(objective)(matrix).square().sum()


def test_transforms_of_functions_have_all_derivatives():
    K = positive(size=3, seed=0)
    leaf = K.clone().requires_grad_()
    (expected,) = torch.autograd.grad(objective(leaf), leaf)
    torch.testing.assert_close(torch.func.grad(objective)(K), expected)
    second = torch.func.grad(slope_squared)(K)
    step = 1e-4 * symmetric(normal(3, 3))
    change = slope_squared(K + step) - slope_squared(K - step)
    torch.testing.assert_close(change, 2.0 * (second * step).sum(), rtol=1e-5, atol=0)


def test_autograd_refuses_second_derivatives():
    leaf = positive(size=3, seed=0).requires_grad_()
    (slope,) = torch.autograd.grad(objective(leaf), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.square().sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_jitter_grows_only_where_needed(dtype):
    singular = torch.ones(5, 5, dtype=dtype)
    fine = positive(size=5, seed=0).to(dtype)
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


def test_a_matrix_that_fails_only_later_gets_jitter_too():
    # The first is singular; the second passes without jitter the first time it is asked about.
    matrix = torch.stack([torch.ones(3, 3), positive(size=3, seed=0).float()])
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
