"""The generalised singular Wishart: its density, moments, gradients and the cheap path."""

import functools

import numpy as np
import pytest
import scipy.stats
import torch
from torch.distributions import Gamma, kl_divergence

from deepwishart.distributions import GeneralisedSingularWishart, Wishart

SHAPES = [(2, 5), (3, 3), (4, 2), (5, 1), (1, 3)]  # (P, nu) with P <, = and > nu
NAMES = ("concentration", "rate", "loc", "scale")


def wishart_parameters(dimension: int, df: int) -> dict[str, torch.Tensor]:
    rank = min(dimension, df)
    ones = torch.ones(dimension, rank, dtype=torch.float64)
    return {
        "concentration": 0.5 * (df - torch.arange(rank, dtype=torch.float64)),
        "rate": 0.5 * ones[0],
        "loc": 0.0 * ones,
        "scale": ones,
    }


@pytest.mark.parametrize(("dimension", "df"), SHAPES)
def test_contains_the_wishart(dimension, df, random_scale, generator):
    scale = random_scale(dimension)
    wishart = Wishart(df, covariance_matrix=scale)
    generalised = GeneralisedSingularWishart(
        df, **wishart_parameters(dimension, df), covariance_matrix=scale
    )
    value = wishart.sample((20,), generator=generator)
    torch.testing.assert_close(
        generalised.log_prob(value), wishart.log_prob(value), rtol=1e-10, atol=1e-10
    )
    torch.testing.assert_close(generalised.mean, wishart.mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(generalised.variance, wishart.variance, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("dimension", "df"), SHAPES)
def test_density_by_numerical_jacobian(dimension, df, random_scale, random_bartlett):
    """Change of variables from the entries of A to the free elements of G, done by autograd."""
    m = min(dimension, df)
    parameters = random_bartlett(dimension, m, seed=dimension + 10 * df)
    q = GeneralisedSingularWishart(df, **parameters, covariance_matrix=random_scale(dimension))
    rows, columns = torch.tril_indices(dimension, m)
    root = q.rsample_root(generator=torch.Generator().manual_seed(0))
    entries = torch.linalg.solve_triangular(q.scale_tril, root, upper=False)[rows, columns]

    def free_elements(entries):
        A = torch.zeros(dimension, m, dtype=torch.float64).index_put((rows, columns), entries)
        B = q.scale_tril @ A
        return (B @ B.mT)[rows, columns]

    log_volume = torch.linalg.slogdet(
        torch.autograd.functional.jacobian(free_elements, entries)
    ).logabsdet
    diagonal, below = rows == columns, rows > columns
    chi, normal = entries[diagonal], entries[below]
    loc = parameters["loc"][rows[below], columns[below]]
    scale = parameters["scale"][rows[below], columns[below]]
    log_A = (
        scipy.stats.gamma.logpdf(
            chi**2, parameters["concentration"], scale=1.0 / parameters["rate"]
        ).sum()
        + np.log(2.0 * chi.numpy()).sum()
        + scipy.stats.norm.logpdf(normal, loc, scale).sum()
    )
    expected = log_A - log_volume.item()
    assert q.log_prob(root @ root.mT).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert q.log_prob_root(root).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("dimension", "df"), SHAPES)
@pytest.mark.parametrize("sticking", [False, True])
def test_cheap_path_agrees(dimension, df, sticking, random_scale, random_bartlett):
    parameters = random_bartlett(dimension, min(dimension, df), 2)
    q = GeneralisedSingularWishart(df, **parameters, covariance_matrix=random_scale(dimension))
    root, log_prob = q.rsample_root_with_log_prob(
        (7,), sticking_the_landing=sticking, generator=torch.Generator().manual_seed(5)
    )
    again = q.rsample_root((7,), generator=torch.Generator().manual_seed(5))
    assert log_prob.shape == (7, 2)
    torch.testing.assert_close(root, again, rtol=0.0, atol=0.0)
    torch.testing.assert_close(log_prob, q.log_prob_root(root), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(log_prob, q.log_prob(root @ root.mT), rtol=1e-8, atol=1e-8)


def test_entries_above_the_diagonal_do_not_matter(random_scale, random_bartlett):
    parameters = random_bartlett(4, 3)
    spoiled = dict(parameters)
    unused = torch.ones(4, 3, dtype=torch.bool).triu()
    spoiled["loc"] = parameters["loc"].masked_fill(unused, torch.nan).requires_grad_()
    spoiled["scale"] = parameters["scale"].masked_fill(unused, -1.0).requires_grad_()
    build = functools.partial(GeneralisedSingularWishart, 3, covariance_matrix=random_scale(4))
    results = []
    for arguments in (parameters, spoiled):
        generator = torch.Generator().manual_seed(0)
        results.append(build(**arguments).rsample_root_with_log_prob(generator=generator))
    torch.testing.assert_close(results[0], results[1], rtol=0.0, atol=0.0)
    (results[1][0].sum() + results[1][1]).backward()
    for name in ("loc", "scale"):
        gradient = spoiled[name].grad
        assert bool(gradient.isfinite().all()) and bool((gradient[unused] == 0).all())


@pytest.mark.parametrize(("dimension", "df"), [(2, 5), (3, 3), (4, 2)])
def test_mean_and_variance(dimension, df, random_scale, random_bartlett, assert_mean, generator):
    parameters = random_bartlett(dimension, min(dimension, df), 2, seed=2)
    q = GeneralisedSingularWishart(df, **parameters, covariance_matrix=random_scale(dimension))
    draws = q.sample((20000,), generator=generator)
    assert_mean(draws, q.mean)
    assert_mean((draws - q.mean).square(), q.variance)


def test_marginals_with_identity_scale(random_bartlett, generator):
    parameters = random_bartlett(3, 2, seed=4)
    q = GeneralisedSingularWishart(
        2, **parameters, covariance_matrix=torch.eye(3, dtype=torch.float64)
    )
    G = q.sample((5000,), generator=generator).numpy()
    alpha, beta = parameters["concentration"][0].item(), parameters["rate"][0].item()
    gamma = scipy.stats.gamma(alpha, scale=1.0 / beta)
    assert scipy.stats.kstest(G[:, 0, 0], gamma.cdf).pvalue > 1e-3
    mu, sigma = parameters["loc"][2, 0].item(), parameters["scale"][2, 0].item()
    normal = scipy.stats.norm(mu, sigma)
    assert scipy.stats.kstest(G[:, 2, 0] / np.sqrt(G[:, 0, 0]), normal.cdf).pvalue > 1e-3
    # The Schur complement G_22 - G_21^2 / G_11 is A_22^2.
    schur = G[:, 1, 1] - G[:, 1, 0] ** 2 / G[:, 0, 0]
    alpha, beta = parameters["concentration"][1].item(), parameters["rate"][1].item()
    gamma = scipy.stats.gamma(alpha, scale=1.0 / beta)
    assert scipy.stats.kstest(schur, gamma.cdf).pvalue > 1e-3


@pytest.mark.parametrize(("dimension", "df"), [(2, 3), (3, 3), (4, 2)])
def test_log_prob_gradcheck(dimension, df, random_scale, random_bartlett):
    m = min(dimension, df)
    parameters = random_bartlett(dimension, m, seed=6)
    seed = torch.linalg.cholesky(random_scale(dimension)) + 0.1
    q = GeneralisedSingularWishart(df, **parameters, covariance_matrix=seed @ seed.mT)
    root = q.rsample_root(generator=torch.Generator().manual_seed(3))

    def log_prob(raw_scale, raw_root, *values):
        lower = raw_root.tril()
        arguments = dict(zip(NAMES, values, strict=True))
        q = GeneralisedSingularWishart(df, **arguments, covariance_matrix=raw_scale @ raw_scale.mT)
        return q.log_prob(lower @ lower.mT)

    arguments = [value.requires_grad_() for value in (seed, root, *parameters.values())]
    assert torch.autograd.gradcheck(log_prob, arguments)


@pytest.mark.parametrize(("dimension", "df"), [(2, 3), (3, 2)])
def test_pathwise_gradients_are_those_of_the_moments(
    dimension, df, random_scale, random_bartlett, assert_mean, generator
):
    """Slopes of E[sum_pq C_pq G_pq + D_pq G_pq^2], along samples and by finite differences."""
    number, m = 20000, min(dimension, df)
    scale_tril = torch.linalg.cholesky(random_scale(dimension))
    parameters = random_bartlett(dimension, m, seed=9)
    C, D = torch.randn(2, dimension, dimension, generator=generator, dtype=torch.float64)
    batched = {
        name: value.expand(number, *value.shape).clone().requires_grad_()
        for name, value in parameters.items()
    }
    q = GeneralisedSingularWishart(df, **batched, scale_tril=scale_tril, validate_args=False)
    draws = q.rsample(generator=generator)
    gradients = torch.autograd.grad((C * draws + D * draws.square()).sum(), list(batched.values()))

    def expectation(**values):
        q = GeneralisedSingularWishart(df, **values, scale_tril=scale_tril)
        return (C * q.mean + D * (q.variance + q.mean.square())).sum()

    step = 1e-5
    for name, gradient in zip(NAMES, gradients, strict=True):
        for index in np.ndindex(*parameters[name].shape):
            up, down = dict(parameters), dict(parameters)
            up[name], down[name] = parameters[name].clone(), parameters[name].clone()
            up[name][index] += step
            down[name][index] -= step
            slope = (expectation(**up) - expectation(**down)) / (2.0 * step)
            assert_mean(gradient[(slice(None), *index)], slope)


@pytest.mark.parametrize(("dimension", "df"), SHAPES)
def test_sticking_the_landing_has_no_noise_at_the_optimum(dimension, df, random_scale, generator):
    scale = random_scale(dimension)
    parameters = {
        name: value.expand(50, *value.shape).clone().requires_grad_()
        for name, value in wishart_parameters(dimension, df).items()
    }
    q = GeneralisedSingularWishart(df, **parameters, covariance_matrix=scale)
    root, log_q = q.rsample_root_with_log_prob(sticking_the_landing=True, generator=generator)
    log_p = Wishart(df, covariance_matrix=scale).log_prob_root(root)
    gradients = torch.autograd.grad((log_p - log_q).sum(), list(parameters.values()))
    for gradient in gradients:
        assert gradient.abs().max().item() <= 1e-10
    # The ordinary estimator is noisy there: the zeros above are not for want of a gradient.
    root, log_q = q.rsample_root_with_log_prob(generator=generator)
    log_p = Wishart(df, covariance_matrix=scale).log_prob_root(root)
    noisy = torch.autograd.grad((log_p - log_q).sum(), parameters["concentration"])[0]
    assert noisy.abs().min().item() > 1e-6


@pytest.mark.parametrize("sticking", [False, True])
def test_gradient_of_the_divergence_in_one_dimension(sticking, assert_mean, generator):
    """For P = 1 both distributions are gamma and the divergence is known."""
    number, df, lower = 20000, 3, 1.4
    start = {"concentration": 2.2, "rate": 0.8}
    known = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in start.items()
    }
    posterior = Gamma(known["concentration"], known["rate"] / lower**2)
    prior = Gamma(torch.tensor(0.5 * df), torch.tensor(0.5 / 0.7))
    exact = torch.autograd.grad(kl_divergence(posterior, prior), list(known.values()))

    batched = {
        name: torch.full((number, 1), value, dtype=torch.float64, requires_grad=True)
        for name, value in start.items()
    }
    unused = torch.ones(1, 1, dtype=torch.float64)
    q = GeneralisedSingularWishart(
        df, **batched, loc=unused, scale=unused, scale_tril=lower * unused
    )
    root, log_q = q.rsample_root_with_log_prob(sticking_the_landing=sticking, generator=generator)
    log_p = Wishart(df, covariance_matrix=0.7 * unused).log_prob_root(root)
    sampled = torch.autograd.grad((log_q - log_p).sum(), list(batched.values()))
    for gradient, slope in zip(sampled, exact, strict=True):
        assert_mean(gradient.squeeze(-1), slope)


@pytest.mark.parametrize(("dimension", "df"), [(2, 3), (4, 2)])
def test_sticking_the_landing_is_unbiased(
    dimension, df, random_scale, random_bartlett, assert_mean, generator
):
    """Paired draws: what sticking the landing leaves out averages to zero, and is not zero."""
    number, scale = 20000, random_scale(dimension)
    parameters = {
        name: value.expand(number, *value.shape).clone().requires_grad_()
        for name, value in random_bartlett(dimension, min(dimension, df), seed=11).items()
    }
    q = GeneralisedSingularWishart(df, **parameters, covariance_matrix=scale, validate_args=False)
    gradients = []
    for sticking in (False, True):
        generator.manual_seed(0)
        _, log_q = q.rsample_root_with_log_prob(sticking_the_landing=sticking, generator=generator)
        gradients.append(torch.autograd.grad(log_q.sum(), list(parameters.values())))
    for plain, stuck in zip(*gradients, strict=True):
        difference = (plain - stuck).flatten(1)
        used = difference.abs().amax(0) > 0
        assert bool(used.any())
        assert_mean(difference[:, used], torch.zeros(()))


def test_sticking_the_landing_keeps_the_scale_attached(random_scale, random_bartlett):
    gradients = []
    for sticking in (False, True):
        scale = random_scale(3).requires_grad_()
        q = GeneralisedSingularWishart(2, **random_bartlett(3, 2), covariance_matrix=scale)
        _, log_q = q.rsample_root_with_log_prob(
            sticking_the_landing=sticking, generator=torch.Generator().manual_seed(0)
        )
        gradients.append(torch.autograd.grad(log_q, scale)[0])
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0.0, atol=0.0)
    assert gradients[0].abs().max().item() > 0.1


def test_bad_parameters_are_named(random_scale, random_bartlett):
    build = functools.partial(GeneralisedSingularWishart, 2, covariance_matrix=random_scale(4))
    good = random_bartlett(4, 2)
    bad_shapes = {"concentration": (3,), "rate": (1,), "loc": (4, 4), "scale": (2, 2)}
    for name, shape in bad_shapes.items():
        with pytest.raises(ValueError, match=f"{name} has shape .* have to be"):
            build(**{**good, name: torch.ones(shape, dtype=torch.float64)})
    for name in ("concentration", "rate", "scale"):
        with pytest.raises(ValueError, match=f"{name} of .* positive and finite"):
            build(**{**good, name: -good[name]})
    with pytest.raises(ValueError, match=r"loc of .* holds NaN"):
        build(**{**good, "loc": good["loc"] * torch.nan})
    with pytest.raises(ValueError, match=r"rate is torch.float32 .* one dtype"):
        build(**{**good, "rate": good["rate"].float()})
