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
    U, V, M = random_scale(rows), random_scale(columns, seed=1), randn(rows, columns)
    value = randn(6, rows, columns, seed=1)
    ours = MatrixNormal(M, torch.linalg.cholesky(U), torch.linalg.cholesky(V))
    theirs = scipy.stats.matrix_normal(M.numpy(), U.numpy(), V.numpy())
    np.testing.assert_allclose(
        ours.log_prob(value), [theirs.logpdf(X.numpy()) for X in value], rtol=1e-10
    )
    plain = MatrixNormal(M, torch.linalg.cholesky(U))
    theirs = scipy.stats.matrix_normal(M.numpy(), U.numpy())
    np.testing.assert_allclose(
        plain.log_prob(value), [theirs.logpdf(X.numpy()) for X in value], rtol=1e-10
    )


def test_batches_are_columns_of_a_multivariate_normal(random_scale):
    lower = torch.linalg.cholesky(random_scale(4, 3, 1))
    loc = randn(2, 4, 2)
    distribution = MatrixNormal(loc, lower)
    assert distribution.batch_shape == (3, 2)
    value = randn(5, 3, 2, 4, 2, seed=2)
    columns = MultivariateNormal(loc.mT, scale_tril=lower.unsqueeze(-3))
    expected = columns.log_prob(value.mT).sum(-1)
    torch.testing.assert_close(distribution.log_prob(value), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("correlated_columns", [False, True])
def test_moments_and_marginals(correlated_columns, random_scale, assert_mean, generator):
    U, M = random_scale(3), randn(3, 2)
    V = random_scale(2, seed=3) if correlated_columns else torch.eye(2, dtype=torch.float64)
    column_scale_tril = torch.linalg.cholesky(V) if correlated_columns else None
    distribution = MatrixNormal(M, torch.linalg.cholesky(U), column_scale_tril)
    draws = distribution.sample((10000,), generator=generator)
    assert_mean(draws, distribution.mean)
    deviations = draws - M
    assert_mean(deviations.square(), distribution.variance)
    for p, d in np.ndindex(3, 2):
        marginal = scipy.stats.norm(M[p, d].item(), distribution.variance[p, d].sqrt().item())
        assert scipy.stats.kstest(draws[:, p, d].numpy(), marginal.cdf).pvalue > 1e-3
    # Cov[X_pd, X_qe] = U_pq V_de
    flat = deviations.flatten(1)
    assert_mean(flat.unsqueeze(-1) * flat.unsqueeze(-2), torch.kron(U, V))


def test_gradcheck_of_log_prob_and_rsample(random_scale):
    arguments = (
        randn(3, 2),
        torch.linalg.cholesky(random_scale(3)),
        torch.linalg.cholesky(random_scale(2)),
    )
    value = randn(4, 3, 2, seed=4)

    def log_prob(value, loc, row, column):
        return MatrixNormal(loc, row.tril(), column.tril()).log_prob(value)

    def rsample(loc, row, column):
        distribution = MatrixNormal(loc, row.tril(), column.tril())
        return distribution.rsample((2,), generator=torch.Generator().manual_seed(0))

    arguments = [argument.requires_grad_() for argument in arguments]
    assert torch.autograd.gradcheck(log_prob, (value.requires_grad_(), *arguments))
    assert torch.autograd.gradcheck(rsample, arguments)


def test_expand_and_float32():
    distribution = MatrixNormal(torch.zeros(3, 2), torch.eye(3), 2.0 * torch.eye(2))
    expanded = distribution.expand((5, 4))
    assert expanded.batch_shape == (5, 4) and distribution.batch_shape == ()
    draws = expanded.rsample((7,), generator=torch.Generator().manual_seed(0))
    assert draws.shape == (7, 5, 4, 3, 2) and draws.dtype == torch.float32
    torch.testing.assert_close(expanded.log_prob(draws), distribution.log_prob(draws))
    assert expanded.mean.shape == expanded.variance.shape == (5, 4, 3, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loc": torch.zeros(3)}, r"loc of MatrixNormal has shape \(3,\)"),
        ({"loc": torch.full((3, 2), torch.nan)}, "Expected parameter loc"),
        ({"row_scale_tril": torch.eye(2)}, r"row_scale_tril of .* have to be \(3, 3\)"),
        ({"column_scale_tril": torch.eye(3)}, r"column_scale_tril of .* have to be \(2, 2\)"),
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
