"""The Wishart distribution against SciPy, the paper's closed form and its own definition."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

from deepwishart.distributions import Wishart

DIMENSIONS = [1, 2, 3, 4, 5, 6]
EXCESS = [0.05, 0.5, 1.0, 1.7, 2.0, 6.0, 31.3]  # df - (P - 1)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_full_rank_density_is_scipys(dimension, random_scale):
    scale = random_scale(dimension, seed=dimension)
    value = random_scale(dimension, 4, seed=100 + dimension) * 3.0
    for excess in EXCESS:
        df = dimension - 1 + excess
        ours = Wishart(df, covariance_matrix=scale).log_prob(value)
        theirs = [scipy.stats.wishart.logpdf(G.numpy(), df, scale.numpy()) for G in value]
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


def test_batched_df_and_batched_scale_against_scipy(random_scale):
    scale = random_scale(3, 2, 1, seed=1)
    df = torch.tensor([2.1, 3.0, 4.5, 12.0], dtype=torch.float64)
    value = random_scale(3, 5, 2, 4, seed=2)
    distribution = Wishart(df, covariance_matrix=scale)
    assert distribution.batch_shape == (2, 4)
    ours = distribution.log_prob(value)
    for index in np.ndindex(5, 2, 4):
        i, j, k = index
        theirs = scipy.stats.wishart.logpdf(value[index].numpy(), df[k].item(), scale[j, 0].numpy())
        assert ours[i, j, k].item() == pytest.approx(theirs, rel=1e-10, abs=1e-10)


def closed_form(G: np.ndarray, sigma: np.ndarray, nu: int) -> float:
    """Appendix D for a general scale, straight from the formula and without any root."""
    P = len(sigma)
    m = min(P, nu)
    _, log_det_sigma = np.linalg.slogdet(sigma)
    _, log_det_leading = np.linalg.slogdet(G[:m, :m])
    return (
        0.5 * nu * (m - P) * math.log(math.pi)
        - 0.5 * nu * P * math.log(2.0)
        - scipy.special.multigammaln(0.5 * nu, m)
        - 0.5 * nu * log_det_sigma
        + 0.5 * (nu - P - 1) * log_det_leading
        - 0.5 * np.trace(np.linalg.solve(sigma, G))
    )


@pytest.mark.parametrize(("dimension", "df"), [(2, 1), (4, 1), (4, 2), (5, 4), (6, 3), (3, 3)])
def test_singular_density_is_the_papers(dimension, df, random_scale):
    scale = random_scale(dimension, seed=3)
    features = torch.randn(6, dimension, df, generator=torch.Generator().manual_seed(4)).double()
    value = features @ features.mT
    distribution = Wishart(df, covariance_matrix=scale)
    assert distribution.rank == min(dimension, df)
    expected = [closed_form(G.numpy(), scale.numpy(), df) for G in value]
    np.testing.assert_allclose(distribution.log_prob(value), expected, rtol=1e-10, atol=1e-10)


def test_rank_one_density_in_two_dimensions_integrates_to_one():
    # Free elements G_11 = x^2 and G_21 = x y; integrate over (x, y), where dG = 2 x^2 dx dy.
    scale = torch.tensor([[1.3, 0.4], [0.4, 0.8]], dtype=torch.float64)
    step = 0.02
    x = torch.arange(0.5 * step, 8.0, step, dtype=torch.float64)
    y = torch.arange(-8.0, 8.0, step, dtype=torch.float64)
    root = torch.stack(torch.meshgrid(x, y, indexing="ij"), dim=-1).unsqueeze(-1)
    density = Wishart(1, covariance_matrix=scale).log_prob_root(root).exp()
    total = (density * 2.0 * root[..., 0, 0].square()).sum() * step**2
    assert total.item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("dimension", "df"), [(3, 7.5), (3, 3), (4, 2)])
def test_mean(dimension, df, random_scale, assert_mean, generator):
    distribution = Wishart(df, covariance_matrix=random_scale(dimension))
    draws = distribution.sample((20000,), generator=generator)
    assert_mean(draws, distribution.mean)


@pytest.mark.parametrize(("dimension", "df"), [(3, 5), (4, 2), (4, 4)])
def test_bartlett_draws_are_sums_of_outer_products(dimension, df, random_scale, generator):
    scale = random_scale(dimension)
    bartlett = Wishart(df, covariance_matrix=scale).sample((4000,), generator=generator)
    noise = torch.randn(4000, dimension, df, generator=generator, dtype=torch.float64)
    features = torch.linalg.cholesky(scale) @ noise
    outer = features @ features.mT
    m = min(dimension, df)
    statistics = {
        "trace": lambda G: G.diagonal(dim1=-2, dim2=-1).sum(-1),
        "last diagonal": lambda G: G[:, -1, -1],
        "off-diagonal": lambda G: G[:, 0, -1],
        "leading determinant": lambda G: torch.linalg.slogdet(G[:, :m, :m])[1],
        "largest eigenvalue": lambda G: torch.linalg.eigvalsh(G)[:, -1],
    }
    for name, statistic in statistics.items():
        test = scipy.stats.ks_2samp(statistic(bartlett).numpy(), statistic(outer).numpy())
        assert test.pvalue > 1e-3, name


@pytest.mark.parametrize(
    ("df", "message"),
    [
        (2.5, "real number above P - 1 = 3"),
        (0, "positive integer"),
        (torch.tensor([2.0, 3.0]), "one common rank"),
        (torch.tensor([2.0, 5.0]), "one common rank"),
        (math.nan, "df = nan defines no Wishart distribution"),
    ],
)
def test_df_without_a_distribution_is_refused(df, message, random_scale):
    with pytest.raises(ValueError, match=message):
        Wishart(df, covariance_matrix=random_scale(4))
