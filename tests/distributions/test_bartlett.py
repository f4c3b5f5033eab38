"""The Bartlett factor on its own."""

import math

import pytest
import torch

from deepwishart.distributions import bartlett
from deepwishart.numerics.wishart import bartlett_factor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_underflowing_gamma_draws_leave_a_positive_diagonal(dtype):
    alpha = torch.full((3,), 1e-3, dtype=dtype, requires_grad=True)
    rate = torch.full((3,), 1e4, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    gamma, noise = bartlett.factor_noise(torch.Size([200]), 3, alpha, generator)
    factor = bartlett_factor(gamma, rate, 0.0, 1.0, noise)
    diagonal = factor.diagonal(dim1=-2, dim2=-1)
    smallest = math.sqrt(torch.finfo(dtype).tiny)
    assert diagonal.min().item() == pytest.approx(smallest, rel=1e-5, abs=0.0)
    diagonal.sum().backward()
    assert bool(alpha.grad.isfinite().all())
