"""The generalised singular Wishart with mixed rows and columns: G = (L R T C)(L R T C)^T."""

import functools

import pytest
import scipy.stats
import torch

from deepwishart.distributions import GeneralisedSingularWishart, Wishart

SHAPES = [(2, 5), (3, 3), (4, 2), (5, 1), (1, 3)]  # (P, nu) with P <, = and > nu
KINDS = ["rows", "columns", "rows_columns"]
NAMES = ("concentration", "rate", "loc", "scale", "row_mixing", "column_mixing")


def chosen(mixing: dict[str, torch.Tensor], kind: str) -> dict[str, torch.Tensor]:
    wanted = {"rows": "row_mixing", "columns": "column_mixing"}
    return {name: value for name, value in mixing.items() if wanted.get(kind, name) == name}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dimension", "df"), SHAPES)
def test_density_by_numerical_jacobian(
    dimension, df, kind, random_scale, random_bartlett, random_mixing
):
    """Change of variables from the free entries of T to the free elements of G, by autograd."""
    m = min(dimension, df)
    parameters = random_bartlett(dimension, m, seed=dimension + 10 * df)
    mixing = chosen(random_mixing(dimension, m, seed=df), kind)
    lower = torch.linalg.cholesky(random_scale(dimension))
    q = GeneralisedSingularWishart(df, **parameters, **mixing, scale_tril=lower)
    rows, columns = torch.tril_indices(dimension, m)
    identity = torch.eye(dimension, dtype=torch.float64)
    left = lower @ mixing.get("row_mixing", identity)
    right = mixing.get("column_mixing", identity[:m, :m])
    generator = torch.Generator().manual_seed(0)
    entries = torch.randn(len(rows), generator=generator, dtype=torch.float64)
    entries[rows == columns] = entries[rows == columns].abs() + 0.3

    def gram(entries):
        T = torch.zeros(dimension, m, dtype=torch.float64).index_put((rows, columns), entries)
        root = left @ T @ right
        return root @ root.mT

    def free_elements(entries):
        return gram(entries)[rows, columns]

    jacobian = torch.autograd.functional.jacobian(free_elements, entries)
    diagonal, below = entries[rows == columns], rows > columns
    loc, scale = (parameters[name][rows[below], columns[below]] for name in ("loc", "scale"))
    gamma = scipy.stats.gamma(parameters["concentration"], scale=1.0 / parameters["rate"])
    log_T = gamma.logpdf(diagonal**2).sum() + (2.0 * diagonal).log().sum().item()
    log_T += scipy.stats.norm.logpdf(entries[below], loc, scale).sum()
    expected = log_T - torch.linalg.slogdet(jacobian).logabsdet.item()
    assert q.log_prob(gram(entries)).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("dimension", "df"), SHAPES)
def test_identities_mix_nothing(dimension, df, random_scale, random_bartlett):
    m, scale = min(dimension, df), random_scale(dimension)
    identity = torch.eye(dimension, dtype=torch.float64)
    build = functools.partial(
        GeneralisedSingularWishart, df, **random_bartlett(dimension, m), covariance_matrix=scale
    )
    plain, mixed = build(), build(row_mixing=identity, column_mixing=identity[:m, :m])
    close = functools.partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)
    for sticking in (False, True):
        draws = [
            q.rsample_root_with_log_prob(
                (9,),
                sticking_the_landing=sticking,
                generator=torch.Generator().manual_seed(0),
            )
            for q in (plain, mixed)
        ]
        close(*draws)
    value = plain.sample((9,), generator=torch.Generator().manual_seed(1))
    close(mixed.log_prob(value), plain.log_prob(value))
    close(mixed.mean, plain.mean)
    close(mixed.variance, plain.variance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dimension", "df"), SHAPES)
@pytest.mark.parametrize("sticking", [False, True])
def test_cheap_path_agrees(
    dimension, df, sticking, kind, random_scale, random_bartlett, random_mixing
):
    m = min(dimension, df)
    mixing = chosen(random_mixing(dimension, m, 2), kind)
    q = GeneralisedSingularWishart(
        df, **random_bartlett(dimension, m), **mixing, covariance_matrix=random_scale(dimension)
    )
    root, log_prob = q.rsample_root_with_log_prob(
        (7,), sticking_the_landing=sticking, generator=torch.Generator().manual_seed(5)
    )
    again = q.rsample_root((7,), generator=torch.Generator().manual_seed(5))
    assert log_prob.shape == (7, 2)
    torch.testing.assert_close(root, again, rtol=0.0, atol=0.0)
    torch.testing.assert_close(log_prob, q.log_prob_root(root), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(log_prob, q.log_prob(root @ root.mT), rtol=1e-8, atol=1e-8)
    alone = GeneralisedSingularWishart(
        df,
        **random_bartlett(dimension, m),
        **{name: value[1] for name, value in mixing.items()},
        covariance_matrix=random_scale(dimension),
    )
    torch.testing.assert_close(alone.log_prob_root(root[:, 1]), log_prob[:, 1])


def test_the_density_integrates_to_one_and_to_the_mean(random_scale, random_mixing):
    """By the trapezoidal rule over G = Lambda Lambda^T, dG = 4 Lambda_11^2 Lambda_22 dLambda."""
    q = GeneralisedSingularWishart(
        2,
        concentration=torch.tensor([3.0, 2.5], dtype=torch.float64),
        rate=torch.tensor([1.0, 1.5], dtype=torch.float64),
        loc=torch.tensor([[0.0, 0.0], [0.4, 0.0]], dtype=torch.float64),
        scale=torch.full((2, 2), 0.6, dtype=torch.float64),
        covariance_matrix=random_scale(2),
        **random_mixing(2, 2, seed=3),
        validate_args=False,
    )
    logs = torch.linspace(-4.5, 2.5, 60, dtype=torch.float64)
    middle = torch.linspace(-14.0, 14.0, 160, dtype=torch.float64)
    first, below, second = torch.meshgrid(logs, middle, logs, indexing="ij")
    root = torch.stack([first.exp(), torch.zeros_like(first), below, second.exp()], -1)
    root = root.unflatten(-1, (2, 2))
    G = root @ root.mT
    # dLambda_jj = Lambda_jj d log Lambda_jj
    weight = (q.log_prob(G) + 3.0 * first + 2.0 * second).exp() * 4.0
    weight = weight * (logs[1] - logs[0]).square() * (middle[1] - middle[0])
    assert weight.sum().item() == pytest.approx(1.0, abs=1e-6)
    mean = (weight[..., None, None] * G).sum((0, 1, 2))
    square = (weight[..., None, None] * G.square()).sum((0, 1, 2))
    torch.testing.assert_close(mean, q.mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(square - mean.square(), q.variance, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dimension", "df"), [(2, 5), (3, 3), (4, 2)])
def test_mean_and_variance(
    dimension, df, random_scale, random_bartlett, random_mixing, assert_mean, generator
):
    m = min(dimension, df)
    q = GeneralisedSingularWishart(
        df,
        **random_bartlett(dimension, m, 2, seed=2),
        **random_mixing(dimension, m, seed=5),
        covariance_matrix=random_scale(dimension),
    )
    draws = q.sample((20000,), generator=generator)
    assert_mean(draws, q.mean)
    assert_mean((draws - q.mean).square(), q.variance)


@pytest.mark.parametrize(("dimension", "df"), [(2, 3), (3, 3), (4, 2)])
def test_log_prob_gradcheck(dimension, df, random_scale, random_bartlett, random_mixing):
    m = min(dimension, df)
    seed = torch.linalg.cholesky(random_scale(dimension))
    parameters = {**random_bartlett(dimension, m, seed=6), **random_mixing(dimension, m)}
    q = GeneralisedSingularWishart(df, **parameters, scale_tril=seed)
    root = q.rsample_root(generator=torch.Generator().manual_seed(3))

    def log_prob(raw_scale, raw_root, *values):
        lower, arguments = raw_root.tril(), dict(zip(NAMES, values, strict=True))
        for name in ("row_mixing", "column_mixing"):
            arguments[name] = arguments[name].tril()
        q = GeneralisedSingularWishart(df, **arguments, scale_tril=raw_scale.tril())
        return q.log_prob(lower @ lower.mT)

    arguments = [value.requires_grad_() for value in (seed, root, *parameters.values())]
    assert torch.autograd.gradcheck(log_prob, arguments)


def divergence(q: GeneralisedSingularWishart, prior: Wishart) -> torch.Tensor:
    """KL(q || Wishart), exact: only E[log T_jj], E[T_jj^2] and the mean of G are needed."""
    P, m, nu = q.dimension, q.rank, prior.df
    alpha, beta, S = q.concentration, q.rate, q.scale_tril @ q.row_mixing
    log_T = 0.5 * (alpha.digamma() - beta.log())
    log_C = q.column_mixing.diagonal().log()
    log_root = log_T + S.diagonal()[:m].log() + log_C
    ones = torch.ones_like(S)
    at_ones = (
        prior.log_prob_root(ones.tril()[:, :m])
        + 0.5
        * (
            torch.cholesky_inverse(prior.scale_tril) * (ones.tril()[:, :m] @ ones.tril()[:, :m].mT)
        ).sum()
    )
    trace = (torch.cholesky_inverse(prior.scale_tril) * q.mean).sum()
    log_p = at_ones + (nu - P - 1) * log_root.sum() - 0.5 * trace
    below = torch.ones(P, m, dtype=torch.bool).tril(-1)
    entropy = torch.distributions.Normal(q.loc[below], q.scale[below]).entropy().sum()
    entropy = entropy + torch.distributions.Gamma(alpha, beta).entropy().sum()
    # Gamma is the density of T_jj^2; dG has (P - j) powers of T_jj beyond d(T_jj^2).
    counts = torch.arange(P, P - m, -1, dtype=torch.float64)
    powers = torch.arange(1, P + 1, dtype=torch.float64).clamp_max(m)
    volume = (powers * S.diagonal().log()).sum() + (counts * log_C).sum()
    volume = volume + (counts * (log_root - log_T)).sum() + ((counts - 1) * log_T).sum()
    return -entropy - volume - log_p


@pytest.mark.parametrize("sticking", [False, True])
@pytest.mark.parametrize(("dimension", "df"), [(2, 4), (3, 3), (4, 2)])
def test_gradient_of_the_divergence_from_a_wishart(
    dimension, df, sticking, random_scale, random_bartlett, random_mixing, assert_mean, generator
):
    """Both estimators of the gradient are unbiased in all parameters, R and C included."""
    number, m, scale = 20000, min(dimension, df), random_scale(dimension)
    start = {**random_bartlett(dimension, m, seed=3), **random_mixing(dimension, m, seed=3)}
    start["concentration"] += 0.5  # A_jj then has moments enough for the standard errors
    prior = Wishart(df, covariance_matrix=random_scale(dimension, seed=1))
    known = {name: value.clone().requires_grad_() for name, value in start.items()}
    exact_q = GeneralisedSingularWishart(df, **known, covariance_matrix=scale)
    exact = torch.autograd.grad(divergence(exact_q, prior), list(known.values()))

    batched = {
        name: value.expand(number, *value.shape).clone().requires_grad_()
        for name, value in start.items()
    }
    q = GeneralisedSingularWishart(df, **batched, covariance_matrix=scale, validate_args=False)
    root, log_q = q.rsample_root_with_log_prob(sticking_the_landing=sticking, generator=generator)
    difference = log_q - prior.log_prob_root(root)
    assert_mean(difference.detach(), divergence(exact_q, prior).detach())
    sampled = torch.autograd.grad(difference.sum(), list(batched.values()))
    for name, gradient, slope in zip(start, sampled, exact, strict=True):
        if name.endswith("mixing"):  # the rest of a triangle is no parameter
            gradient, slope = gradient.tril(), slope.tril()
        assert_mean(gradient, slope)


@pytest.mark.parametrize(("dimension", "df"), [(2, 4), (4, 2)])
def test_what_sticking_the_landing_leaves_out_averages_to_zero(
    dimension, df, random_scale, random_bartlett, random_mixing, assert_mean, generator
):
    """Paired draws; and without it, the gradient in R and C is that of the volume alone."""
    number, m = 20000, min(dimension, df)
    mixing = random_mixing(dimension, m, seed=7)
    batched = [
        value.expand(number, *value.shape).clone().requires_grad_() for value in mixing.values()
    ]
    q = GeneralisedSingularWishart(
        df,
        **random_bartlett(dimension, m, seed=8),
        row_mixing=batched[0],
        column_mixing=batched[1],
        covariance_matrix=random_scale(dimension),
        validate_args=False,
    )
    gradients = []
    for sticking in (False, True):
        generator.manual_seed(0)
        _, log_q = q.rsample_root_with_log_prob(sticking_the_landing=sticking, generator=generator)
        gradients.append(torch.autograd.grad(log_q.sum(), batched))
    for plain, stuck in zip(*gradients, strict=True):
        assert bool((plain == plain[0]).all()) and plain.abs().max() > 0.5
        difference = (plain - stuck).tril()
        assert (difference.std(0) > 1e-3)[torch.ones(plain.shape[1:]).tril() > 0].all()
        assert_mean(difference, torch.zeros(()))


@pytest.mark.parametrize(("dimension", "df"), SHAPES)
def test_sticking_the_landing_has_no_noise_at_the_optimum(dimension, df, random_scale, generator):
    m, scale = min(dimension, df), random_scale(dimension)
    ones = torch.ones(dimension, m, dtype=torch.float64)
    identity = torch.eye(dimension, dtype=torch.float64)
    mixing = [
        value.expand(50, *value.shape).clone().requires_grad_()
        for value in (identity, identity[:m, :m])
    ]
    q = GeneralisedSingularWishart(
        df,
        0.5 * (df - torch.arange(m, dtype=torch.float64)),
        0.5 * ones[0],
        0.0 * ones,
        ones,
        covariance_matrix=scale,
        row_mixing=mixing[0],
        column_mixing=mixing[1],
    )
    prior = Wishart(df, covariance_matrix=scale)
    for sticking, bound in ((True, 1e-9), (False, None)):
        root, log_q = q.rsample_root_with_log_prob(
            sticking_the_landing=sticking, generator=generator
        )
        gradients = torch.autograd.grad((prior.log_prob_root(root) - log_q).sum(), mixing)
        for gradient in gradients:
            size = gradient.tril().abs().max().item()
            assert size <= bound if bound is not None else size > 0.1


def test_sticking_the_landing_keeps_the_scale_attached(
    random_scale, random_bartlett, random_mixing
):
    gradients = []
    for sticking in (False, True):
        scale = random_scale(3).requires_grad_()
        q = GeneralisedSingularWishart(
            2, **random_bartlett(3, 2), **random_mixing(3, 2), covariance_matrix=scale
        )
        _, log_q = q.rsample_root_with_log_prob(
            sticking_the_landing=sticking, generator=torch.Generator().manual_seed(0)
        )
        gradients.append(torch.autograd.grad(log_q, scale)[0])
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0.0, atol=0.0)
    assert gradients[0].abs().max().item() > 0.1


@pytest.mark.parametrize(("dimension", "df"), SHAPES)
def test_diagonals_can_be_absorbed(dimension, df, random_scale, random_bartlett, random_mixing):
    """R = R' D, C = E C' with unit diagonals in R' and C': D T E is a Bartlett factor."""
    m = min(dimension, df)
    parameters, mixing = random_bartlett(dimension, m), random_mixing(dimension, m)
    d = mixing["row_mixing"].diagonal().unsqueeze(-1)
    e = mixing["column_mixing"].diagonal()
    lower = torch.linalg.cholesky(random_scale(dimension))
    build = functools.partial(GeneralisedSingularWishart, df, scale_tril=lower)
    first = build(**parameters, **mixing)
    second = build(
        parameters["concentration"],
        parameters["rate"] / (d[:m, 0] * e).square(),
        d * parameters["loc"] * e,
        d * parameters["scale"] * e,
        row_mixing=mixing["row_mixing"] / d.mT,
        column_mixing=mixing["column_mixing"] / e.unsqueeze(-1),
    )
    assert torch.equal(second.row_mixing.diagonal(), torch.ones(dimension).double())
    value = first.sample((9,), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(second.log_prob(value), first.log_prob(value), rtol=0, atol=1e-8)
    torch.testing.assert_close(second.mean, first.mean, rtol=1e-12, atol=1e-12)


def test_row_mixing_is_a_change_of_scale_where_the_scale_is_fixed(
    random_scale, random_bartlett, random_mixing
):
    lower, mixing = torch.linalg.cholesky(random_scale(4)), random_mixing(4, 2)
    rows = mixing.pop("row_mixing")
    build = functools.partial(GeneralisedSingularWishart, 2, **random_bartlett(4, 2), **mixing)
    mixed, scaled = build(scale_tril=lower, row_mixing=rows), build(scale_tril=lower @ rows)
    value = mixed.sample((9,), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(mixed.log_prob(value), scaled.log_prob(value), rtol=0, atol=1e-8)


def test_bad_mixing_is_named(random_scale, random_bartlett):
    build = functools.partial(
        GeneralisedSingularWishart, 2, **random_bartlett(4, 2), covariance_matrix=random_scale(4)
    )
    for name, size in (("row_mixing", 4), ("column_mixing", 2)):
        identity = torch.eye(size, dtype=torch.float64)
        wanted = rf"{name} has shape \(3, 3\).* have to be \({size}, {size}\)"
        with pytest.raises(ValueError, match=wanted):
            build(**{name: torch.eye(3, dtype=torch.float64)})
        with pytest.raises(ValueError, match=f"{name} of .* not lower triangular"):
            build(**{name: identity + 0.1})
        with pytest.raises(ValueError, match=f"{name} of .* diagonal that is not positive"):
            build(**{name: -identity})
        infinite = identity.clone()
        infinite[-1, 0] = torch.inf
        with pytest.raises(ValueError, match=f"{name} of .* infinite"):
            build(**{name: infinite})
        with pytest.raises(ValueError, match=rf"{name} is torch.float32 .* one dtype"):
            build(**{name: identity.float()})
