"""The inverse Wishart distribution against SciPy and against inverted Wishart matrices."""

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

from deepwishart.distributions import InverseWishart, Wishart


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5, 6])
def test_density_is_scipys(dimension, random_scale):
    scale = random_scale(dimension, seed=dimension)
    value = random_scale(dimension, 4, seed=50 + dimension)
    for df in (dimension, dimension + 0.3, dimension + 1.0, dimension + 4.7, 40.0):
        ours = InverseWishart(df, covariance_matrix=scale).log_prob(value)
        theirs = [scipy.stats.invwishart.logpdf(G.numpy(), df, scale.numpy()) for G in value]
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("df", [2.05, 2.6])
def test_density_by_change_of_variables_from_the_wishart(df, random_scale):
    # P - 1 < df < P, where SciPy has no inverse Wishart; |dG^-1 / dG| = |G|^-(P + 1).
    scale, value = random_scale(3), random_scale(3, 5, seed=7)
    wishart = Wishart(df, covariance_matrix=torch.linalg.inv(scale))
    expected = wishart.log_prob(torch.linalg.inv(value)) - 4.0 * torch.logdet(value)
    ours = InverseWishart(df, covariance_matrix=scale).log_prob(value)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


def test_batches_against_scipy(random_scale):
    scale = random_scale(3, 2, 1, seed=1)
    df = torch.tensor([3.0, 3.5, 9.0], dtype=torch.float64)
    value = random_scale(3, 4, 2, 3, seed=2)
    ours = InverseWishart(df, covariance_matrix=scale).log_prob(value)
    assert ours.shape == (4, 2, 3)
    for i, j, k in np.ndindex(4, 2, 3):
        theirs = scipy.stats.invwishart.logpdf(
            value[i, j, k].numpy(), df[k].item(), scale[j, 0].numpy()
        )
        assert ours[i, j, k].item() == pytest.approx(theirs, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(("dimension", "df"), [(1, 0.7), (3, 4.5), (5, 8)])
def test_cheap_path_agrees(dimension, df, random_scale):
    distribution = InverseWishart(df, covariance_matrix=random_scale(dimension, 2))
    root, inverse_root, log_prob = distribution.rsample_root_with_log_prob(
        (6,), generator=torch.Generator().manual_seed(0)
    )
    again = distribution.rsample_root((6,), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(root, again, rtol=0.0, atol=0.0)
    identity = torch.eye(dimension, dtype=torch.float64).expand(6, 2, dimension, dimension)
    torch.testing.assert_close(inverse_root @ root, identity, rtol=0.0, atol=1e-9)
    close = {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(log_prob, distribution.log_prob_root(root), **close)
    torch.testing.assert_close(log_prob, distribution.log_prob_inverse_root(inverse_root), **close)
    torch.testing.assert_close(
        log_prob, distribution.log_prob(root @ root.mT), rtol=1e-6, atol=1e-6
    )


def test_mean_is_nan_where_undefined(random_scale):
    df = torch.tensor([3.9, 4.1, 6.0, 6.1], dtype=torch.float64)
    distribution = InverseWishart(df, covariance_matrix=random_scale(3))
    assert distribution.mean.isnan().all(-1).all(-1).tolist() == [True, False, False, False]


def test_mean_is_scipys(random_scale):
    scale = random_scale(4)
    mean = scipy.stats.invwishart.mean(9.5, scale.numpy())
    np.testing.assert_allclose(InverseWishart(9.5, scale).mean, mean, rtol=1e-12)


@pytest.mark.parametrize("df", [3.0, 7.4])
def test_draws_invert_to_wishart_draws(df, random_scale, generator):
    scale = random_scale(3)
    draws = InverseWishart(df, covariance_matrix=scale).sample((5000,), generator=generator)
    precision = torch.linalg.inv(draws)
    inverse_scale = torch.linalg.inv(scale)
    for i in range(3):
        statistic = (precision[:, i, i] / inverse_scale[i, i]).numpy()
        assert scipy.stats.kstest(statistic, scipy.stats.chi2(df).cdf).pvalue > 1e-3
        # A diagonal element of G is inverse gamma, with the degrees of freedom of a 1 x 1 block.
        marginal = scipy.stats.invgamma(0.5 * (df - 2), scale=0.5 * scale[i, i].item())
        assert scipy.stats.kstest(draws[:, i, i].numpy(), marginal.cdf).pvalue > 1e-3
    wishart = Wishart(df, covariance_matrix=inverse_scale).sample((5000,), generator=generator)
    for statistic in (torch.logdet, lambda G: G[:, 0, 1], lambda G: G[:, 2, 0] + G[:, 1, 1]):
        pair = (statistic(precision).numpy(), statistic(wishart).numpy())
        assert scipy.stats.ks_2samp(*pair).pvalue > 1e-3


def test_gradient_through_the_cheap_path(random_scale):
    """The divergence from an inverse Wishart to itself has zero gradient in the scale, on average
    over any draws: log p - log q is identically zero when both move together.
    """
    raw = torch.linalg.cholesky(random_scale(3)).requires_grad_()
    distribution = InverseWishart(5.5, scale_tril=raw.tril(), validate_args=False)
    _, inverse_root, log_q = distribution.rsample_root_with_log_prob(
        (4,), generator=torch.Generator().manual_seed(0)
    )
    log_p = distribution.log_prob_inverse_root(inverse_root)
    (gradient,) = torch.autograd.grad((log_p - log_q).sum(), raw)
    assert gradient.abs().max().item() < 1e-10
    (gradient,) = torch.autograd.grad(distribution.rsample_root_with_log_prob((4,))[2].sum(), raw)
    assert gradient.abs().max().item() > 0.1


def test_df_too_small_is_refused(random_scale):
    with pytest.raises(ValueError, match="above P - 1 = 2; got 2"):
        InverseWishart(2, covariance_matrix=random_scale(3))
    with pytest.raises(ValueError, match="above P - 1 = 2"):
        InverseWishart(torch.tensor([5.0, 1.0]), covariance_matrix=random_scale(3))
