"""Cholesky factors with their inverses, and what their derivatives share with all operations."""

import pytest
import torch

from deepwishart.numerics import linalg
from deepwishart.numerics.linalg import cholesky_inverse

from .conftest import (
    assert_gradcheck,
    assert_paths_agree,
    assert_precisions_agree,
    normal,
    plain_paths,
    positive,
)


def factors(use):
    def function(root):
        matrix = root @ root.mT + torch.eye(root.shape[-1], dtype=root.dtype)
        lower, inverse, failed = cholesky_inverse(matrix)
        assert not failed.any()
        return {"lower": [lower], "inverse": [inverse], "both": [lower, inverse]}[use]

    return function


@pytest.mark.parametrize("batch", [(), (2, 2)])
@pytest.mark.parametrize("size", [1, 70, 210])  # both sides of the switch to LAPACK
@pytest.mark.parametrize("use", ["lower", "inverse", "both"])
def test_paths_agree(batch, size, use):
    assert_paths_agree(factors(use), [normal(*batch, size, size, seed=3) / size**0.5])


@pytest.mark.parametrize("use", ["lower", "inverse", "both"])
def test_gradcheck(use):
    assert_gradcheck(factors(use), [normal(2, 4, 4)])


@pytest.mark.parametrize("size", [1, 5, 70, 210])
def test_precisions_agree(size):
    assert_precisions_agree(factors("both"), [normal(2, size, size, seed=4) / size**0.5])


@pytest.mark.parametrize("size", [1, 2, 50, 150, 260])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_factors_are_exactly_triangular_and_invert_each_other(size, dtype):
    matrix = positive(3, size=size, seed=size).to(dtype)
    lower, inverse, _ = cholesky_inverse(matrix)
    eps = torch.finfo(dtype).eps
    assert (lower @ lower.mT - matrix).abs().max() < 40 * eps
    eye = torch.eye(size, dtype=dtype)
    assert (lower @ inverse - eye).abs().max() < 40 * eps
    assert bool((lower.triu(1) == 0).all()) and bool((inverse.triu(1) == 0).all())


@pytest.mark.parametrize("size", [3, 200])
def test_failures_are_told_matrix_by_matrix(size):
    good = positive(size=size, seed=1)
    bad, nan = good.clone(), good * float("nan")
    bad[1, 1] = -1.0
    *_, failed = cholesky_inverse(torch.stack([good, bad, nan]))
    assert failed.tolist()[0] == 0 and failed.tolist()[1] == 2 and failed.tolist()[2] != 0


def test_matrices_need_not_be_contiguous():
    matrix = positive(3, size=6, seed=1)
    strided = matrix.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert not strided.is_contiguous()
    for first, second in zip(cholesky_inverse(strided), cholesky_inverse(matrix), strict=True):
        assert torch.equal(first, second)


def objective(matrix):
    return linalg.cholesky_inverse(matrix)[1].square().sum()


def slope_squared(matrix):
    return torch.func.grad(objective)(matrix).square().sum()


def test_first_derivatives_by_function_transforms():
    K = positive(size=3, seed=0)
    leaf = K.clone().requires_grad_()
    (expected,) = torch.autograd.grad(objective(leaf), leaf)
    assert torch.equal(torch.func.grad(objective)(K), expected)


def test_second_derivatives_are_refused():
    K = positive(size=3, seed=0)
    with pytest.raises(RuntimeError, match=r"first derivatives only.*DEEPWISHART_NATIVE=0"):
        torch.func.grad(slope_squared)(K)
    leaf = K.clone().requires_grad_()
    (slope,) = torch.autograd.grad(objective(leaf), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        slope.square().sum().backward()


def test_the_plain_path_has_them():
    with plain_paths():
        assert bool((torch.func.grad(slope_squared)(positive(size=3, seed=0)) != 0).any())
