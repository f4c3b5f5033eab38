"""Arguments of every kind: what they stand for, or one sentence."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from deepwishart._support.arguments import (
    number,
    resolve_device,
    tensor,
    whole_number,
)


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), torch.tensor(3)])
def test_counts(value):
    found = whole_number("depth", value)
    assert type(found) is int and found == 3
    with pytest.raises(ValueError, match="depth must be at most 2, got"):
        whole_number("depth", value, most=2)


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), Fraction(1, 2), Decimal("0.5")])
def test_numbers(value):
    found = number("mixing", value, high=1.0)
    assert type(found) is float and found == 0.5
    with pytest.raises(ValueError, match=r"mixing must be strictly between 0 and 0\.25, got"):
        number("mixing", value, high=0.25)
    with pytest.raises(ValueError, match="depth must be an integer of at least 1, got"):
        whole_number("depth", value)


X = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    "values",
    [
        X.clone().requires_grad_(),
        torch.nn.Parameter(X),
        X.numpy()[::-1].copy()[::-1],
        np.frombuffer(X.numpy().tobytes()).reshape(2, 2),
        X.numpy().astype(">f8"),
        X.numpy().astype(object),
        X.tolist(),
        pd.DataFrame(X.numpy()),
        pl.DataFrame(X.numpy()),
    ],
)
def test_tensors_of_every_kind(values):
    found = tensor("X", values)
    assert not found.requires_grad
    torch.testing.assert_close(found, X, rtol=0, atol=0)


def test_what_is_masked_is_missing():
    found = tensor("y", np.ma.masked_array([1, 2], [False, True]))
    assert found[0] == 1.0 and found[1].isnan()


@pytest.mark.parametrize("device", ["gpu", "cuda:99999999999999999999", 10**400, None])
def test_a_device_that_there_is_not(device):
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu' or a device"):
        resolve_device(device)
