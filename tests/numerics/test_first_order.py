"""Second derivatives are refused, never zero."""

import pytest
import torch

from deepwishart.numerics.linalg import cholesky_inverse

from .conftest import plain_paths, positive


def objective(matrix):
    return cholesky_inverse(matrix)[1].square().sum()


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
