"""Draws from the two posterior families, scored by posterior and prior: compiled, and as they are
defined."""

import functools

import pytest
import torch

from deepwishart.distributions import AnchoredWishart, GeneralisedSingularWishart, Wishart
from deepwishart.numerics import anchored, linalg, wishart
from deepwishart.numerics.anchored import draw_anchored
from deepwishart.numerics.wishart import draw_wishart

from .conftest import (
    assert_paths_agree,
    assert_precisions_agree,
    normal,
    positive,
    symmetric,
)

SAMPLES = 3
SHAPES = [(1, 1), (5, 2), (5, 8), (65, 4), (200, 3)]
batches = pytest.mark.parametrize("batch", [(), (SAMPLES,)], ids=["shared", "own"])
families = pytest.mark.parametrize("family", ["bartlett", "anchored"])


def inputs(family, size, degrees, *batch):
    """Parameters that are nothing like those of a Wishart."""
    rank = min(size, degrees)
    generator = torch.Generator().manual_seed(size + degrees)

    def uniform(*shape):
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    found = {
        "scale": positive(*batch, size=size, seed=1),
        "gamma": 0.2 + 2.0 * uniform(SAMPLES, rank),
        "concentration": 0.7 + 3.0 * uniform(rank),
        "rate": 0.5 + uniform(rank),
    }
    if family == "anchored":
        M = 1.5 * normal(size, size, seed=2) / size**0.5
        return found | {"targets": normal(size, rank, seed=3), "precision_root": M}
    return found | {"loc": 2.0 * uniform(size, rank) - 1.0, "deviation": 0.2 + uniform(size, rank)}


def draw(family, names, degrees, sticking, *leaves, what="matrix"):
    given = dict(zip(names, leaves, strict=True))
    size, rank = leaves[0].shape[-1], min(leaves[0].shape[-1], degrees)
    epsilon = normal(SAMPLES, size, rank, seed=5).to(leaves[0].dtype)
    options = {"epsilon": epsilon, "degrees": degrees, "sticking": sticking, "what": what}
    given["scale"] = symmetric(given["scale"])
    if family == "anchored":
        log_ratio, found = draw_anchored(**given, **options)
    else:
        unit = {name: unit_lower(given.pop(name)) for name in ("rows", "columns") if name in given}
        given.setdefault("posterior_scale", None)
        log_ratio, found = draw_wishart(**given, **unit, **options)
    return log_ratio, found.root, found.inverse, found.weights


def unit_lower(matrix):
    return matrix.tril(-1) + torch.eye(len(matrix), dtype=matrix.dtype)


def drawn(family, given, degrees, sticking=True):
    return functools.partial(draw, family, list(given), degrees, sticking)


@batches
@families
@pytest.mark.parametrize("sticking", [True, False], ids=["sticking", "full"])
@pytest.mark.parametrize("size, degrees", SHAPES)
def test_paths_agree(family, batch, sticking, size, degrees):
    given = inputs(family, size, degrees, *batch)
    assert_paths_agree(drawn(family, given, degrees, sticking), list(given.values()), 1e-8)


@families
@pytest.mark.parametrize("wanted", [[0], [1], [0, 1], [2], [3]], ids=str)
def test_paths_agree_where_only_some_results_are_used(family, wanted):
    given = inputs(family, 6, 3, SAMPLES)

    def some(*leaves):
        found = draw(family, list(given), 3, True, *leaves)
        return [found[i] + 0 * sum(x.sum() for x in leaves) for i in wanted]

    assert_paths_agree(some, list(given.values()))


@batches
@families
@pytest.mark.parametrize("degrees", [2, 4, 6])
def test_gradients_are_finite_differences(family, batch, degrees):
    given = inputs(family, 4, degrees, *batch)
    leaves = [value.requires_grad_() for value in given.values()]
    assert torch.autograd.gradcheck(drawn(family, given, degrees, sticking=False), leaves)


@batches
@pytest.mark.parametrize("mixed", ["rows", "columns", "posterior_scale", "all"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_two_scales_and_mixing_run_on_the_definition(dtype, mixed, batch):
    given = inputs("bartlett", 6, 3, *batch)
    extra = {
        "rows": normal(6, 6, seed=3) / 6,
        "columns": normal(3, 3, seed=4) / 3,
        "posterior_scale": positive(*batch, size=6, seed=2),
    }
    given |= {name: value for name, value in extra.items() if mixed in (name, "all")}
    given = {name: value.to(dtype) for name, value in given.items()}
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3  # the definition's own rounding
    assert_paths_agree(drawn("bartlett", given, 3), list(given.values()), tolerance)


@families
@batches
def test_the_ratio_is_that_of_the_distributions(family, batch):
    for size, degrees in ((5, 2), (5, 5), (5, 8)):
        given = inputs(family, size, degrees, *batch)
        ratio, root, *_ = draw(family, list(given), degrees, False, *given.values())
        scale, _, *parameters = given.values()
        law = AnchoredWishart if family == "anchored" else GeneralisedSingularWishart
        q = law(degrees, *parameters, covariance_matrix=scale)
        p = Wishart(degrees, covariance_matrix=scale)
        root = root.tril()[..., : q.rank]
        torch.testing.assert_close(ratio, p.log_prob_root(root) - q.log_prob_root(root))


@families
def test_single_precision_agrees_with_double(family):
    given = inputs(family, 30, 4, SAMPLES)
    assert_precisions_agree(drawn(family, given, 4), list(given.values()))


def test_equal_distributions_have_no_ratio():
    # Posterior = prior: every draw, in every rank, scores log p - log q = 0.
    for size, degrees in ((5, 2), (5, 5), (5, 9)):
        rank = min(size, degrees)
        alpha = 0.5 * (degrees - torch.arange(rank, dtype=torch.float64))
        given = inputs("bartlett", size, degrees, SAMPLES)
        zero, one = torch.zeros(size, rank).double(), torch.ones(size, rank).double()
        given |= {"concentration": alpha, "rate": 0.5 * one[0], "loc": zero, "deviation": one}
        for family in ("bartlett", "anchored"):
            if family == "anchored":
                del given["loc"], given["deviation"]
                given |= {"targets": zero, "precision_root": torch.zeros(size, size).double()}
            ratio, *_ = draw(family, list(given), degrees, True, *given.values())
            torch.testing.assert_close(ratio, torch.zeros_like(ratio), rtol=0, atol=1e-12)


@families
def test_a_singular_matrix_gets_jitter_with_the_same_noise(family):
    given = inputs(family, 4, 2, SAMPLES)
    given["scale"] = torch.ones_like(given["scale"])
    log_ratio, root, *_ = draw(family, list(given), 2, True, *given.values())
    assert bool(log_ratio.isfinite().all())
    given["scale"] = linalg.add_jitter(given["scale"], linalg.default_jitter(torch.float64))
    expected = draw(family, list(given), 2, True, *given.values())
    # The jitter of the first success is the default's; what it leaves has a condition of 1e6.
    torch.testing.assert_close(log_ratio, expected[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(root, expected[1], rtol=1e-9, atol=1e-9)


@families
def test_what_cannot_be_factorised_is_named(family):
    given = inputs(family, 2, 2, SAMPLES)
    for scale, problem in (
        (torch.full((SAMPLES, 2, 2), torch.nan), "contains NaN"),
        (torch.diag(torch.tensor([1.0, -1.0])).expand(SAMPLES, 2, 2), "is not positive"),
    ):
        given["scale"] = scale.double()
        with pytest.raises(linalg.CholeskyError, match=f"kernel matrix of layer 7 {problem}"):
            draw(family, list(given), 2, True, *given.values(), what="layer 7")
    given = inputs("bartlett", 2, 2, SAMPLES)
    given["posterior_scale"] = torch.nan * given["scale"]
    with pytest.raises(linalg.CholeskyError, match=r"posterior scale of layer 7 contains NaN"):
        draw("bartlett", list(given), 2, True, *given.values(), what="layer 7")


@families
def test_the_kernel_is_used(family, monkeypatch):
    """Otherwise the tests above compare the definition with itself."""
    module = anchored if family == "anchored" else wishart
    name = "AnchoredDraw" if family == "anchored" else "WishartDraw"

    class Called(Exception):
        pass

    def note(*arguments):
        raise Called

    monkeypatch.setattr(getattr(module, name), "apply", note)
    given = inputs(family, 4, 2, SAMPLES)
    with pytest.raises(Called):
        draw(family, list(given), 2, True, *given.values())
