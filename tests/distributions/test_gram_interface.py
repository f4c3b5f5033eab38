"""What every distribution over Gram matrices has to do alike: the torch.distributions interface."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deepwishart.distributions import (
    AnchoredWishart,
    GeneralisedSingularWishart,
    GramDistribution,
    InverseWishart,
    PositiveSemidefinite,
    Wishart,
)

EYE = torch.eye(4, dtype=torch.float64)
WITH_MEAN = ["wishart", "singular_wishart", "generalised", "mixed", "inverse_wishart"]
FAMILIES = [*WITH_MEAN, "anchored"]


def make(
    family: str,
    dimension: int = 4,
    batch: tuple[int, ...] = (),
    dtype: torch.dtype = torch.float64,
    rank: int = 2,
    **options: object,
) -> GramDistribution:
    identity = torch.eye(dimension, dtype=dtype)
    options = {
        "covariance_matrix": (identity + 0.3).expand(*batch, dimension, dimension),
        **options,
    }
    if family == "wishart":
        return Wishart(dimension + 1.5, **options)
    if family == "singular_wishart":
        return Wishart(min(rank, dimension), **options)
    if family == "inverse_wishart":
        return InverseWishart(dimension + 5.5, **options)
    m = min(rank, dimension)
    vector, matrix = torch.ones(m, dtype=dtype), torch.ones(dimension, m, dtype=dtype)
    if family == "anchored":
        return AnchoredWishart(rank, 2.0 * vector, vector, 0.5 * matrix, 0.7 * identity, **options)
    if family == "mixed":
        options["row_mixing"] = identity + 0.4 * torch.ones_like(identity).tril()
        options["column_mixing"] = options["row_mixing"][:m, :m] - 0.2 * identity[:m, :m]
    return GeneralisedSingularWishart(
        rank, 2.0 * vector, vector, 0.5 * matrix, 0.7 * matrix, **options
    )


shapes = st.lists(st.integers(0, 3), max_size=2).map(tuple)


@settings(max_examples=15, deadline=None)
@given(
    family=st.sampled_from(FAMILIES),
    dimension=st.integers(1, 5),
    rank=st.integers(1, 6),
    batch=shapes,
    sample=shapes,
    seed=st.integers(0, 2**31),
)
def test_shapes_roots_and_support(family, dimension, rank, batch, sample, seed):
    distribution = make(family, dimension, batch, rank=rank)
    m = distribution.rank
    assert distribution.batch_shape == batch
    assert distribution.event_shape == (dimension, dimension)
    if family in WITH_MEAN:
        assert distribution.mean.shape == (*batch, dimension, dimension)
    root = distribution.rsample_root(sample, generator=torch.Generator().manual_seed(seed))
    value = distribution.rsample(sample, generator=torch.Generator().manual_seed(seed))
    assert root.shape == (*sample, *batch, dimension, m)
    assert bool((root == root.tril()).all())
    assert bool((root.diagonal(dim1=-2, dim2=-1) > 0).all())
    torch.testing.assert_close(root @ root.mT, value, rtol=0.0, atol=0.0)
    assert bool(distribution.support.check(value).all())
    log_prob = distribution.log_prob(value)
    assert log_prob.shape == (*sample, *batch)
    torch.testing.assert_close(log_prob, distribution.log_prob_root(root), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_density_broadcasts_between_value_and_batch(family):
    distribution = make(family, batch=(3, 1))
    values = make(family, batch=(2,)).sample((5, 1), generator=torch.Generator().manual_seed(0))
    log_prob = distribution.log_prob(values)
    assert log_prob.shape == (5, 3, 2)
    single = make(family).log_prob(values[0, 0, 0])
    assert single.shape == ()
    torch.testing.assert_close(log_prob[0, 1, 0], single, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_float32_stays_float32(family):
    single = make(family, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    value = single.rsample((20,), generator=generator)
    log_prob = single.log_prob(value)
    root = single.rsample_root((20,), generator=generator)
    for result in (value, log_prob, root, single.log_prob_root(root)):
        assert result.dtype == torch.float32
    loose = make(family, validate_args=False)
    torch.testing.assert_close(
        log_prob.double(), loose.log_prob(value.double()), rtol=1e-4, atol=1e-3
    )
    if family in WITH_MEAN:
        assert single.mean.dtype == torch.float32


@pytest.mark.parametrize("family", FAMILIES)
def test_expand(family):
    distribution = make(family)
    expanded = distribution.expand((3, 2))
    assert type(expanded) is type(distribution)
    assert (expanded.batch_shape, distribution.batch_shape) == ((3, 2), ())
    value = expanded.rsample((4,), generator=torch.Generator().manual_seed(0))
    assert value.shape == (4, 3, 2, 4, 4)
    torch.testing.assert_close(expanded.log_prob(value), distribution.log_prob(value))
    if family in WITH_MEAN:
        torch.testing.assert_close(expanded.mean, distribution.mean.expand(3, 2, 4, 4))
    assert expanded.covariance_matrix.shape == (3, 2, 4, 4)
    with pytest.raises(ValueError, match="to be within the support"):
        expanded.log_prob(value.triu())


@pytest.mark.parametrize("family", FAMILIES)
def test_scale_tril_and_covariance_matrix_agree(family):
    by_covariance = make(family)
    lower = torch.linalg.cholesky(by_covariance.covariance_matrix)
    by_factor = make(family, covariance_matrix=None, scale_tril=lower)
    value = by_covariance.sample((5,), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(by_factor.log_prob(value), by_covariance.log_prob(value))
    torch.testing.assert_close(by_factor.covariance_matrix, by_covariance.covariance_matrix)


@pytest.mark.parametrize("family", FAMILIES)
def test_generator_decides_the_draw(family):
    distribution = make(family)
    draws = [
        distribution.rsample((2,), generator=torch.Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    ]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    before = torch.random.get_rng_state()
    distribution.rsample(generator=torch.Generator().manual_seed(0))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("family", FAMILIES)
def test_density_gradcheck_in_the_scale_and_the_value(family):
    scale_tril = torch.linalg.cholesky(EYE + 0.3).requires_grad_()
    root = make(family).rsample_root(generator=torch.Generator().manual_seed(1)).requires_grad_()

    def log_prob(raw_scale, raw_root):
        q = make(family, covariance_matrix=None, scale_tril=raw_scale.tril())
        return q.log_prob(raw_root.tril() @ raw_root.tril().mT)

    assert torch.autograd.gradcheck(log_prob, (scale_tril, root))


@pytest.mark.parametrize(("kind", "nu"), [(Wishart, 4.3), (InverseWishart, 15.0)])
def test_gradients_in_the_degrees_of_freedom(kind, nu, random_scale, assert_mean, generator):
    """Of the density, by finite differences; of draws, on average that of the mean."""
    scale, value = random_scale(3), random_scale(3, seed=4)
    df = torch.tensor(nu, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda nu: kind(nu, scale).log_prob(value), df)
    many = df.detach().expand(20000).clone().requires_grad_()
    draws = kind(many, scale, validate_args=False).rsample(generator=generator)
    for i, j in ((0, 0), (1, 0), (2, 2)):
        (found,) = torch.autograd.grad(draws[:, i, j].sum(), many, retain_graph=True)
        (expected,) = torch.autograd.grad(kind(df, scale).mean[i, j], df)
        assert_mean(found, expected)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ({}, "exactly one of covariance_matrix and scale_tril"),
        (dict.fromkeys(("covariance_matrix", "scale_tril"), EYE), "exactly one of"),
        ({"covariance_matrix": EYE[:, :3]}, r"shape \(4, 3\)"),
        ({"covariance_matrix": EYE[0]}, r"shape \(4,\)"),
        ({"covariance_matrix": EYE[0, 0]}, r"shape \(\)"),
        ({"covariance_matrix": EYE + EYE.roll(1, 0)}, "covariance_matrix .* PositiveDefinite"),
        ({"covariance_matrix": EYE - 0.5}, "covariance_matrix .* PositiveDefinite"),
        ({"covariance_matrix": EYE * torch.nan}, "covariance_matrix .* PositiveDefinite"),
        ({"scale_tril": EYE[:, :3]}, r"shape \(4, 3\)"),
        ({"scale_tril": EYE + 0.1}, "scale_tril .* LowerCholesky"),
        ({"scale_tril": -EYE}, "scale_tril .* LowerCholesky"),
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_bad_scales_are_refused(family, scale, message):
    with pytest.raises(ValueError, match=message):
        make(family, **{"covariance_matrix": None, **scale})


@pytest.mark.parametrize("family", FAMILIES)
def test_values_outside_the_support_are_refused(family):
    distribution = make(family)
    good = distribution.sample(generator=torch.Generator().manual_seed(0))
    bad = [good + EYE.roll(1, 0), good / 0.0, torch.ones_like(good), -good]
    if distribution.rank < 4:
        bad.append(good + 1e-3 * EYE)
    for value in bad:
        with pytest.raises(ValueError, match="to be within the support"):
            distribution.log_prob(value)
    with pytest.raises(ValueError, match="size of value must match event_shape"):
        distribution.log_prob(good[:3, :3])
    with pytest.raises(ValueError, match="not broadcastable with batch_shape"):
        distribution.expand((3,)).log_prob(good.expand(2, 4, 4))
    root = distribution.rsample_root(generator=torch.Generator().manual_seed(0))
    for value in (root[:3], root + 1.0, -root):
        with pytest.raises(ValueError, match=f"4 rows and {distribution.rank} columns"):
            distribution.log_prob_root(value)
    unchecked = make(family, validate_args=False)
    assert unchecked.log_prob(good + 1e-3 * EYE.roll(1, 0)).isfinite()


def test_constraint_judges_each_matrix_of_a_batch():
    identity = torch.eye(3, dtype=torch.float64)
    vector = torch.tensor([[2.0], [1.0], [-1.0]], dtype=torch.float64)
    rank_one = vector @ vector.mT
    shifted = rank_one.clone()
    shifted[0, 1] += 0.1
    batch = torch.stack(
        [rank_one, identity, shifted, -rank_one, rank_one * torch.nan, 0 * identity]
    )
    constraint = PositiveSemidefinite(3, rank=1)
    assert constraint.check(batch).tolist() == [True, False, False, False, False, False]
    assert PositiveSemidefinite(3, 3).check(batch).tolist() == [False, True] + 4 * [False]
    assert "rank=1" in repr(constraint)
    assert GramDistribution.support.event_dim == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_support_tolerance_follows_dtype_and_size(dtype, size):
    distribution = make("singular_wishart", 6, (20,), dtype)
    value = size * distribution.sample(generator=torch.Generator().manual_seed(0))
    assert bool(distribution.support.check(value).all())
    spoiled = value.clone()
    spoiled[:, 5, 5] *= 1.05
    assert not bool(distribution.support.check(spoiled).any())
