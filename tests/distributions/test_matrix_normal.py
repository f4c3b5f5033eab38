"""The matrix normal distribution against SciPy and against its vectorised form."""

import numpy as np
import pytest
import scipy.stats
import torch
from torch.distributions import MultivariateNormal

from deepwishart.distributions import MatrixNormal


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 2), (2, 5)])
def test_density_is_scipys(rows, columns, random_scale):
    U, M, value = random_scale(rows), randn(rows, columns), randn(6, rows, columns, seed=1)
    ours = MatrixNormal(M, torch.linalg.cholesky(U)).log_prob(value)
    theirs = scipy.stats.matrix_normal(M.numpy(), U.numpy())
    np.testing.assert_allclose(ours, [theirs.logpdf(X.numpy()) for X in value], rtol=1e-10)


def test_batches_are_columns_of_a_multivariate_normal(random_scale):
    lower = torch.linalg.cholesky(random_scale(4, 3, 1))
    loc = randn(2, 4, 2)
    distribution = MatrixNormal(loc, lower)
    assert distribution.batch_shape == (3, 2)
    value = randn(5, 3, 2, 4, 2, seed=2)
    columns = MultivariateNormal(loc.mT, scale_tril=lower.unsqueeze(-3))
    expected = columns.log_prob(value.mT).sum(-1)
    torch.testing.assert_close(distribution.log_prob(value), expected, rtol=1e-12, atol=1e-12)


def test_moments_and_marginals(random_scale, assert_mean, generator):
    U, M = random_scale(3), randn(3, 2)
    distribution = MatrixNormal(M, torch.linalg.cholesky(U))
    draws = distribution.sample((10000,), generator=generator)
    assert_mean(draws, distribution.mean)
    for p, d in np.ndindex(3, 2):
        marginal = scipy.stats.norm(M[p, d].item(), U[p, p].sqrt().item())
        assert scipy.stats.kstest(draws[:, p, d].numpy(), marginal.cdf).pvalue > 1e-3
    # Cov[X_pd, X_qe] = U_pq [d = e]
    flat = (draws - M).flatten(1)
    expected = torch.kron(U, torch.eye(2, dtype=torch.float64))
    assert_mean(flat.unsqueeze(-1) * flat.unsqueeze(-2), expected)


def test_expand_and_float32():
    distribution = MatrixNormal(torch.zeros(3, 2), torch.eye(3))
    expanded = distribution.expand((5, 4))
    assert expanded.batch_shape == (5, 4) and distribution.batch_shape == ()
    draws = expanded.rsample((7,), generator=torch.Generator().manual_seed(0))
    assert draws.shape == (7, 5, 4, 3, 2) and draws.dtype == torch.float32
    torch.testing.assert_close(expanded.log_prob(draws), distribution.log_prob(draws))
    assert expanded.mean.shape == (5, 4, 3, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loc": torch.zeros(3)}, r"loc of MatrixNormal has shape \(3,\)"),
        ({"loc": torch.full((3, 2), torch.nan)}, "Expected parameter loc"),
        ({"row_scale_tril": torch.eye(2)}, r"row_scale_tril of .* have to be \(3, 3\)"),
        (
            {"row_scale_tril": torch.ones(3, 3)},
            "row_scale_tril .* LowerCholesky",
        ),
    ],
)
def test_errors_name_the_argument(change, message):
    good = {"loc": torch.zeros(3, 2), "row_scale_tril": torch.eye(3)}
    with pytest.raises(ValueError, match=message):
        MatrixNormal(**{**good, **change})
    with pytest.raises(ValueError, match="size of value must match event_shape"):
        MatrixNormal(**good).log_prob(torch.zeros(2, 3))
