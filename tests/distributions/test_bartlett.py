"""The Bartlett factor on its own."""

import math

import pytest
import torch

from deepwishart.distributions import bartlett
from deepwishart.numerics import mixing as mixing_of
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


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_root_of_recovers_the_root(rank):
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(7, 5, rank, generator=generator, dtype=torch.float64).tril()
    root.diagonal(dim1=-2, dim2=-1).abs_().add_(0.5)
    torch.testing.assert_close(bartlett.root_of(root @ root.mT, rank), root, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_scale_volume_is_the_sum_of_both_jacobians(rank):
    """The paper's two products, written out, against the form in which we evaluate them."""
    P = 4
    lower = torch.eye(P, dtype=torch.float64) + torch.arange(P, dtype=torch.float64).diag() / 3.0
    log_diagonal = lower.diagonal().log()
    expected = sum(min(i, rank) * log_diagonal[i - 1] for i in range(1, P + 1))
    expected += sum((P - j + 1) * log_diagonal[j - 1] for j in range(1, rank + 1))
    torch.testing.assert_close(mixing_of.log_scale_volume(lower, rank), expected)


@pytest.mark.parametrize(
    ("df", "dimension", "rank"),
    [(1, 1, 1), (0.2, 1, 1), (3, 3, 3), (2, 3, 2), (2.01, 3, 3), (9, 2, 2)],
)
def test_rank(df, dimension, rank):
    assert bartlett.rank_of(df, dimension) == rank
    assert bartlett.rank_of(torch.tensor([df, df], dtype=torch.float64), dimension) == rank


@pytest.mark.parametrize("mixed", ["row_mixing", "column_mixing", "both", "neither"])
def test_unmix_inverts_mix(mixed, random_mixing):
    mixing = random_mixing(5, 3, 2)
    rows = mixing["row_mixing"] if mixed in ("row_mixing", "both") else None
    columns = mixing["column_mixing"] if mixed in ("column_mixing", "both") else None
    generator = torch.Generator().manual_seed(0)
    factor = torch.randn(4, 2, 5, 3, generator=generator, dtype=torch.float64).tril()
    result = mixing_of.mix(factor, rows, columns)
    assert torch.equal(result, result.tril())
    torch.testing.assert_close(mixing_of.unmix(result, rows, columns), factor, rtol=0, atol=1e-13)


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_mixing_volume_is_the_sum_of_its_jacobians(rank, random_mixing):
    """Rows, columns and the step from the root to the Gram matrix, written out one by one."""
    P = 4
    mixing = random_mixing(P, rank)
    R, C = (mixing[name].diagonal().log() for name in ("row_mixing", "column_mixing"))
    expected = sum(min(i, rank) * R[i - 1] for i in range(1, P + 1))
    expected += sum(C[: min(i, rank)].sum() for i in range(1, P + 1))
    expected += sum((P - j + 1) * (R[j - 1] + C[j - 1]) for j in range(1, rank + 1))
    volume = mixing_of.log_mixing_volume(*mixing.values(), num_rows=P, rank=rank)
    torch.testing.assert_close(volume, expected, rtol=1e-13, atol=0.0)
    assert mixing_of.log_mixing_volume(None, None, P, rank) == 0.0
