"""The generalised singular Wishart, with mixed rows and columns or without: its density, mean,
gradients and the cheap path. G = (L R T C)(L R T C)^T."""

import functools

import pytest
import scipy.stats
import torch

from deepwishart.distributions import GeneralisedSingularWishart, Wishart

SHAPES = pytest.mark.parametrize(
    ("dimension", "df"), [(2, 5), (3, 3), (4, 2), (5, 1), (1, 3)]
)  # (P, nu) with P <, = and > nu
FEW_SHAPES = pytest.mark.parametrize(("dimension", "df"), [(2, 4), (3, 3), (4, 2)])
MIXED = {
    "plain": (),
    "rows": ("row_mixing",),
    "columns": ("column_mixing",),
    "both": ("row_mixing", "column_mixing"),
}
KINDS = pytest.mark.parametrize("kind", MIXED)
STICKING = pytest.mark.parametrize("sticking", [False, True])


@pytest.fixture
def parameters(random_bartlett, random_mixing):
    """Parameters by name, of a kind of mixing."""

    def make(dimension, df, kind, *batch, seed=0):
        m = min(dimension, df)
        mixing = random_mixing(dimension, m, *batch, seed=seed)
        chosen = {name: mixing[name] for name in MIXED[kind]}
        return random_bartlett(dimension, m, *batch, seed=seed) | chosen

    return make


def wishart_parameters(dimension: int, df: int, kind: str = "plain") -> dict[str, torch.Tensor]:
    rank = min(dimension, df)
    ones = torch.ones(dimension, rank, dtype=torch.float64)
    identity = torch.eye(dimension, dtype=torch.float64)
    mixing = {"row_mixing": identity, "column_mixing": identity[:rank, :rank]}
    return {
        "concentration": 0.5 * (df - torch.arange(rank, dtype=torch.float64)),
        "rate": 0.5 * ones[0],
        "loc": 0.0 * ones,
        "scale": ones,
        **{name: mixing[name] for name in MIXED[kind]},
    }


def leaves(number: int, values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """So many copies of parameters, each with a gradient of its own."""
    return {
        name: value.expand(number, *value.shape).clone().requires_grad_()
        for name, value in values.items()
    }


def lower(name: str, value: torch.Tensor) -> torch.Tensor:
    """The rest of a triangle is no parameter."""
    return value.tril() if name.endswith("mixing") else value


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@SHAPES
@KINDS
def test_contains_the_wishart(dimension, df, kind, random_scale, generator):
    scale = random_scale(dimension)
    wishart = Wishart(df, covariance_matrix=scale)
    generalised = GeneralisedSingularWishart(
        df, **wishart_parameters(dimension, df, kind), covariance_matrix=scale
    )
    value = wishart.sample((20,), generator=generator)
    torch.testing.assert_close(
        generalised.log_prob(value), wishart.log_prob(value), rtol=1e-10, atol=1e-10
    )
    torch.testing.assert_close(generalised.mean, wishart.mean, rtol=1e-12, atol=1e-12)


@SHAPES
@KINDS
def test_density_by_numerical_jacobian(dimension, df, kind, random_scale, parameters):
    """Change of variables from the free entries of T to the free elements of G, by autograd."""
    given = parameters(dimension, df, kind, seed=dimension + 10 * df)
    scale_tril = torch.linalg.cholesky(random_scale(dimension))
    q = GeneralisedSingularWishart(df, **given, scale_tril=scale_tril)
    m, identity = q.rank, torch.eye(dimension, dtype=torch.float64)
    rows, columns = torch.tril_indices(dimension, m)
    left = scale_tril @ given.get("row_mixing", identity)
    right = given.get("column_mixing", identity[:m, :m])
    entries = torch.randn(len(rows), generator=seeded(), dtype=torch.float64)
    entries[rows == columns] = entries[rows == columns].abs() + 0.3

    def root(entries):
        T = torch.zeros(dimension, m, dtype=torch.float64).index_put((rows, columns), entries)
        return left @ T @ right

    def free_elements(entries):
        return (root(entries) @ root(entries).mT)[rows, columns]

    jacobian = torch.autograd.functional.jacobian(free_elements, entries)
    diagonal, below = entries[rows == columns], rows > columns
    loc, scale = (given[name][rows[below], columns[below]] for name in ("loc", "scale"))
    gamma = scipy.stats.gamma(given["concentration"], scale=1.0 / given["rate"])
    log_T = gamma.logpdf(diagonal**2).sum() + (2.0 * diagonal).log().sum().item()
    log_T += scipy.stats.norm.logpdf(entries[below], loc, scale).sum()
    expected = log_T - torch.linalg.slogdet(jacobian).logabsdet.item()
    value = root(entries)
    assert q.log_prob_root(value).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert q.log_prob(value @ value.mT).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@SHAPES
@KINDS
@STICKING
def test_cheap_path_agrees(dimension, df, kind, sticking, random_scale, parameters):
    given, scale = parameters(dimension, df, kind, 2), random_scale(dimension)
    q = GeneralisedSingularWishart(df, **given, covariance_matrix=scale)
    root, log_prob = q.rsample_root_with_log_prob(
        (7,), sticking_the_landing=sticking, generator=seeded(5)
    )
    again = q.rsample_root((7,), generator=seeded(5))
    assert log_prob.shape == (7, 2)
    torch.testing.assert_close(root, again, rtol=0.0, atol=0.0)
    torch.testing.assert_close(log_prob, q.log_prob_root(root), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(log_prob, q.log_prob(root @ root.mT), rtol=1e-8, atol=1e-8)
    second = {name: value[1] for name, value in given.items()}
    alone = GeneralisedSingularWishart(df, **second, covariance_matrix=scale)
    torch.testing.assert_close(alone.log_prob_root(root[:, 1]), log_prob[:, 1])


def test_entries_above_the_diagonal_do_not_matter(random_scale, parameters):
    given, unused = parameters(4, 3, "plain"), torch.ones(4, 3, dtype=torch.bool).triu()
    other = {
        name: value.masked_fill(unused, 7.0).requires_grad_() if name in ("loc", "scale") else value
        for name, value in given.items()
    }
    results = []
    for arguments in (given, other):
        q = GeneralisedSingularWishart(3, **arguments, covariance_matrix=random_scale(4))
        results.append((*q.rsample_root_with_log_prob(generator=seeded()), q.mean))
    torch.testing.assert_close(results[0], results[1], rtol=0.0, atol=0.0)
    sum(part.sum() for part in results[1]).backward()
    assert all(bool((other[name].grad[unused] == 0).all()) for name in ("loc", "scale"))


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
    torch.testing.assert_close(mean, q.mean, rtol=1e-6, atol=1e-6)


@FEW_SHAPES
@pytest.mark.parametrize("kind", ["plain", "both"])
def test_mean(dimension, df, kind, random_scale, parameters, assert_mean, generator):
    given = parameters(dimension, df, kind, 2, seed=2)
    q = GeneralisedSingularWishart(df, **given, covariance_matrix=random_scale(dimension))
    assert_mean(q.sample((20000,), generator=generator), q.mean)


@pytest.mark.parametrize(("dimension", "df"), [(2, 3), (3, 3), (4, 2)])
@pytest.mark.parametrize("kind", ["plain", "both"])
def test_log_prob_gradcheck(dimension, df, kind, random_scale, parameters):
    given = parameters(dimension, df, kind, seed=6)
    scale_tril = torch.linalg.cholesky(random_scale(dimension))
    q = GeneralisedSingularWishart(df, **given, scale_tril=scale_tril)
    root = q.rsample_root(generator=seeded(3))

    def log_prob(raw_scale, raw_root, *values):
        arguments = {n: lower(n, value) for n, value in zip(given, values, strict=True)}
        q = GeneralisedSingularWishart(df, **arguments, scale_tril=raw_scale.tril())
        return q.log_prob(raw_root.tril() @ raw_root.tril().mT)

    arguments = [value.requires_grad_() for value in (scale_tril, root, *given.values())]
    assert torch.autograd.gradcheck(log_prob, arguments)


@SHAPES
@pytest.mark.parametrize("kind", ["plain", "both"])
def test_sticking_the_landing_has_no_noise_at_the_optimum(
    dimension, df, kind, random_scale, generator
):
    scale = random_scale(dimension)
    given = leaves(50, wishart_parameters(dimension, df, kind))
    q = GeneralisedSingularWishart(df, **given, covariance_matrix=scale)
    prior, sizes = Wishart(df, covariance_matrix=scale), {}
    for sticking in (True, False):
        root, log_q = q.rsample_root_with_log_prob(
            sticking_the_landing=sticking, generator=generator
        )
        gradients = torch.autograd.grad(
            (prior.log_prob_root(root) - log_q).sum(), list(given.values())
        )
        found = zip(given, gradients, strict=True)
        sizes[sticking] = {name: lower(name, each).abs().max().item() for name, each in found}
    assert max(sizes[True].values()) <= 1e-9
    # The ordinary estimator is noisy there: the zeros above are not for want of a gradient.
    assert all(sizes[False][name] > 1e-3 for name in ("concentration", *MIXED[kind]))


def divergence(q: GeneralisedSingularWishart, prior: Wishart) -> torch.Tensor:
    """KL(q || Wishart), exact: only E[log T_jj], E[T_jj^2] and the mean of G are needed."""
    P, m, nu = q.dimension, q.rank, prior.df
    alpha, beta, S = q.concentration, q.rate, q.scale_tril @ q.row_mixing
    log_T = 0.5 * (alpha.digamma() - beta.log())
    log_C = q.column_mixing.diagonal().log()
    log_root = log_T + S.diagonal()[:m].log() + log_C
    precision = torch.cholesky_inverse(prior.scale_tril)
    ones = torch.ones_like(S).tril()[:, :m]
    at_ones = prior.log_prob_root(ones) + 0.5 * (precision * (ones @ ones.mT)).sum()
    trace = (precision * q.mean).sum()
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


@STICKING
@FEW_SHAPES
def test_gradient_of_the_divergence_from_a_wishart(
    dimension, df, sticking, random_scale, parameters, assert_mean, generator
):
    """Both estimators of the gradient are unbiased in all parameters, R and C included."""
    scale = random_scale(dimension)
    start = parameters(dimension, df, "both", seed=3)
    start["concentration"] += 0.5  # A_jj then has moments enough for the standard errors
    prior = Wishart(df, covariance_matrix=random_scale(dimension, seed=1))
    known = {name: value.clone().requires_grad_() for name, value in start.items()}
    exact_q = GeneralisedSingularWishart(df, **known, covariance_matrix=scale)
    exact = torch.autograd.grad(divergence(exact_q, prior), list(known.values()))

    batched = leaves(20000, start)
    q = GeneralisedSingularWishart(df, **batched, covariance_matrix=scale, validate_args=False)
    root, log_q = q.rsample_root_with_log_prob(sticking_the_landing=sticking, generator=generator)
    difference = log_q - prior.log_prob_root(root)
    assert_mean(difference.detach(), divergence(exact_q, prior).detach())
    sampled = torch.autograd.grad(difference.sum(), list(batched.values()))
    for name, gradient, slope in zip(start, sampled, exact, strict=True):
        assert_mean(lower(name, gradient), lower(name, slope))


def test_sticking_the_landing_keeps_the_scale_attached(random_scale, parameters):
    gradients = []
    for sticking in (False, True):
        scale = random_scale(3).requires_grad_()
        q = GeneralisedSingularWishart(2, **parameters(3, 2, "both"), covariance_matrix=scale)
        _, log_q = q.rsample_root_with_log_prob(sticking_the_landing=sticking, generator=seeded())
        gradients.append(torch.autograd.grad(log_q, scale)[0])
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0.0, atol=0.0)
    assert gradients[0].abs().max().item() > 0.1


@SHAPES
def test_diagonals_can_be_absorbed(dimension, df, random_scale, parameters):
    """R = R' D, C = E C' with unit diagonals in R' and C': D T E is a Bartlett factor."""
    given = parameters(dimension, df, "both")
    d, e = given["row_mixing"].diagonal().unsqueeze(-1), given["column_mixing"].diagonal()
    build = functools.partial(
        GeneralisedSingularWishart, df, covariance_matrix=random_scale(dimension)
    )
    first = build(**given)
    second = build(
        given["concentration"],
        given["rate"] / (d[: len(e), 0] * e).square(),
        d * given["loc"] * e,
        d * given["scale"] * e,
        row_mixing=given["row_mixing"] / d.mT,
        column_mixing=given["column_mixing"] / e.unsqueeze(-1),
    )
    assert torch.equal(second.row_mixing.diagonal(), torch.ones(dimension).double())
    value = first.sample((9,), generator=seeded())
    torch.testing.assert_close(second.log_prob(value), first.log_prob(value), rtol=0, atol=1e-8)
    torch.testing.assert_close(second.mean, first.mean, rtol=1e-12, atol=1e-12)


def test_row_mixing_is_a_change_of_scale_where_the_scale_is_fixed(random_scale, parameters):
    scale_tril, given = torch.linalg.cholesky(random_scale(4)), parameters(4, 2, "both")
    mixed = GeneralisedSingularWishart(2, **given, scale_tril=scale_tril)
    rows = given.pop("row_mixing")
    scaled = GeneralisedSingularWishart(2, **given, scale_tril=scale_tril @ rows)
    value = mixed.sample((9,), generator=seeded())
    torch.testing.assert_close(mixed.log_prob(value), scaled.log_prob(value), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("concentration", 3), ("rate", 1), ("loc", (4, 4)), ("scale", (2, 2))],
)
def test_bad_parameters_are_named(name, shape, random_scale, parameters):
    given = parameters(4, 2, "plain")
    build = functools.partial(GeneralisedSingularWishart, 2, covariance_matrix=random_scale(4))
    with pytest.raises(ValueError, match=f"{name} of .* has shape .* have to be"):
        build(**{**given, name: torch.ones(shape, dtype=torch.float64)})
    with pytest.raises(ValueError, match=f"Expected parameter {name} .* to satisfy"):
        build(**{**given, name: given[name] * torch.nan})
