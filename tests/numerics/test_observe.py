"""Pseudo-observations of a Gaussian."""

import pytest
import torch

from deepwishart.numerics import linalg
from deepwishart.numerics.observe import observe

from .conftest import (
    assert_gradcheck,
    assert_paths_agree,
    assert_precisions_agree,
    normal,
    positive,
    symmetric,
)


def observed(K, M, v):
    found = observe(symmetric(K), M, v, what="the posterior")
    return list(found)


def inputs(size, columns, *batch):
    M = normal(size, size, seed=2) / size**0.5
    return [positive(*batch, size=size, seed=1), M, normal(size, columns, seed=3)]


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("size, columns", [(1, 1), (5, 3), (70, 1), (210, 2)])
def test_paths_agree(batch, size, columns):
    assert_paths_agree(observed, inputs(size, columns, *batch))


@pytest.mark.parametrize("batch", [(), (3,)])
def test_gradcheck(batch):
    assert_gradcheck(observed, inputs(5, 2, *batch))


@pytest.mark.parametrize("batch", [(), (3,)])
def test_precisions_agree(batch):
    assert_precisions_agree(observed, inputs(30, 2, *batch))


def test_parts_are_what_they_are_called():
    K, M, v = inputs(6, 2, 3)
    found = observe(K, M, v, what="the posterior")
    B = M.mT @ K @ M + torch.eye(6, dtype=K.dtype)
    solved = torch.linalg.solve(B, (M.mT @ v).expand(3, 6, 2))
    torch.testing.assert_close(found.inverse.mT @ found.inverse, torch.linalg.inv(B))
    torch.testing.assert_close(found.projection, found.inverse @ M.mT)
    torch.testing.assert_close(found.inverse.mT @ found.whitened, solved)
    torch.testing.assert_close(found.log_det, torch.logdet(B))


def test_nan_is_reported_with_the_name():
    K, M, v = inputs(4, 2, 3)
    with pytest.raises(linalg.CholeskyError, match="the posterior contains NaN"):
        observe(K * float("nan"), M, v, what="the posterior")
