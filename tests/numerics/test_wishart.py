"""A draw from the approximate posterior, scored by posterior and prior: compiled, and as the
distributions compute it."""

import functools

import pytest
import torch

from deepwishart.distributions import GeneralisedSingularWishart, Wishart
from deepwishart.numerics import linalg, wishart
from deepwishart.numerics.mix import Mixed
from deepwishart.numerics.wishart import draw_and_score, plain_draw_and_score

from .conftest import (
    assert_close,
    normal,
    plain_paths,
    positive,
    scalar,
    symmetric,
    values_and_gradients,
)

SAMPLES = 3


def inputs(size, degrees, *batch, mixing=()):
    """Parameters that are nothing like those of a Wishart."""
    rank = min(size, degrees)
    generator = torch.Generator().manual_seed(size + degrees)

    def uniform(*shape):
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    found = {
        "prior": positive(*batch, size=size, seed=1),
        "posterior": positive(*batch, size=size, seed=2),
        "concentration": 0.7 + 3.0 * uniform(rank),
        "rate": 0.5 + uniform(rank),
        "mean": 2.0 * uniform(size, rank) - 1.0,
        "deviation": 0.2 + uniform(size, rank),
    }
    if "row_mixing" in mixing:
        found["row_mixing"] = normal(size, size, seed=3) / size
    if "column_mixing" in mixing:
        found["column_mixing"] = normal(rank, rank, seed=4) / rank
    return found


def with_mixed_scale(given, size):
    """The same with a posterior scale that is mixed of the prior's and that of a root."""
    given["posterior"] = normal(size, size, seed=2)
    return given | {"weight": scalar(0.3)}


def unit_lower(matrix):
    return matrix.tril(-1) + torch.eye(len(matrix), dtype=matrix.dtype)


def distributions(names, degrees, leaves):
    given = dict(zip(names, leaves, strict=True))
    mixing = {n: unit_lower(given[n]) for n in ("row_mixing", "column_mixing") if n in given}
    scale, own = symmetric(given["prior"]), given["posterior"]
    mixed = "weight" in given
    posterior = GeneralisedSingularWishart(
        degrees,
        given["concentration"],
        given["rate"],
        given["mean"],
        given["deviation"],
        covariance_matrix=Mixed(scale, own, given["weight"]) if mixed else symmetric(own),
        validate_args=False,
        **mixing,
    )
    prior = Wishart(degrees, covariance_matrix=scale, validate_args=False)
    return posterior, prior


def draw(operation, names, degrees, sticking, *leaves, seed=5):
    posterior, prior = distributions(names, degrees, leaves)
    log_ratio, given = operation(
        posterior,
        prior,
        SAMPLES,
        sticking_the_landing=sticking,
        generator=torch.Generator().manual_seed(seed),
    )
    return log_ratio, given.root, given.inverse, given.weights


def forbid_plain_path(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("the compiled operation fell back to the plain path")

    monkeypatch.setattr(wishart, "plain_draw_and_score", refuse)


MIXING = [(), ("row_mixing",), ("column_mixing",), ("row_mixing", "column_mixing")]


@pytest.mark.parametrize("batch", [(), (SAMPLES,)], ids=["shared", "own"])
@pytest.mark.parametrize("sticking", [True, False], ids=["sticking", "full"])
@pytest.mark.parametrize("mixing", MIXING, ids=["plain", "rows", "columns", "both"])
@pytest.mark.parametrize(
    "size, degrees",
    [(1, 1), (5, 2), (5, 5), (5, 8), (65, 4), (65, 65), (100, 4), (100, 130), (200, 3)],
)
@pytest.mark.parametrize("mixed", [False, True], ids=["given", "mixed"])
def test_paths_agree(mixed, batch, sticking, mixing, size, degrees, monkeypatch):
    given = inputs(size, degrees, *batch, mixing=mixing)
    given = with_mixed_scale(given, size) if mixed else given
    names, values = list(given), list(given.values())
    with plain_paths():
        reference = functools.partial(draw, plain_draw_and_score, names, degrees, sticking)
        expected = values_and_gradients(reference, values)
    forbid_plain_path(monkeypatch)
    compiled = functools.partial(draw, draw_and_score, names, degrees, sticking)
    assert_close(values_and_gradients(compiled, values), expected, tolerance=1e-8)


@pytest.mark.parametrize("wanted", [[0], [1], [0, 1], [2], [3]], ids=str)
def test_paths_agree_where_only_some_results_are_used(wanted):
    given = inputs(6, 3, SAMPLES)

    def some(operation):
        return lambda *leaves: [
            draw(operation, list(given), 3, True, *leaves)[i] + 0 * sum(x.sum() for x in leaves)
            for i in wanted
        ]

    with plain_paths():
        expected = values_and_gradients(some(plain_draw_and_score), list(given.values()))
    found = values_and_gradients(some(draw_and_score), list(given.values()))
    assert_close(found, expected, tolerance=1e-9)


@pytest.mark.parametrize("batch", [(), (SAMPLES,)], ids=["shared", "own"])
@pytest.mark.parametrize("mixing", MIXING, ids=["plain", "rows", "columns", "both"])
@pytest.mark.parametrize("degrees", [2, 4, 6])
@pytest.mark.parametrize("mixed", [False, True], ids=["given", "mixed"])
def test_gradients_are_finite_differences(mixed, batch, mixing, degrees):
    # A gamma variable jumps with its concentration under a fixed seed, so that one stays fixed.
    given = inputs(4, degrees, *batch, mixing=mixing)
    given = with_mixed_scale(given, 4) if mixed else given
    alpha = given.pop("concentration")
    names = ["concentration", *given]

    def compiled(*leaves):
        return draw(draw_and_score, names, degrees, False, alpha, *leaves)

    leaves = [value.requires_grad_() for value in given.values()]
    assert torch.autograd.gradcheck(compiled, leaves)


def test_single_precision_agrees_with_double():
    given = inputs(30, 4, SAMPLES)

    def log_ratio(dtype):
        leaves = [value.to(dtype) for value in given.values()]
        posterior, prior = distributions(list(given), 4, leaves)
        noise = torch.Generator().manual_seed(1)
        with torch.no_grad():
            found, conditional = draw_and_score(posterior, prior, SAMPLES, generator=noise)
        # Gamma variables are drawn in the dtype, so samples differ; each is scored where it lies.
        root = conditional.root.double()
        doubles = [value.double() for value in leaves]
        q, p = distributions(list(given), 4, doubles)
        exact = p.log_prob_root(root.tril()) - q.log_prob_root(root.tril())
        return found.double(), exact

    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        found, exact = log_ratio(dtype)
        torch.testing.assert_close(found, exact, rtol=tolerance, atol=0)


def test_equal_distributions_have_no_ratio():
    # Posterior = prior: every draw, in every rank, scores log p - log q = 0.
    for size, degrees in ((5, 2), (5, 5), (5, 9)):
        rank = min(size, degrees)
        alpha = 0.5 * (degrees - torch.arange(rank, dtype=torch.float64))
        K = positive(SAMPLES, size=size, seed=1)
        zero, one = torch.zeros(size, rank).double(), torch.ones(size, rank).double()
        q = GeneralisedSingularWishart(
            degrees, alpha, 0.5 * one[0], zero, one, covariance_matrix=K, validate_args=False
        )
        p = Wishart(degrees, covariance_matrix=K, validate_args=False)
        ratio, _ = draw_and_score(q, p, SAMPLES)
        torch.testing.assert_close(ratio, torch.zeros_like(ratio), rtol=0, atol=1e-12)


def test_a_singular_matrix_gets_jitter_with_the_same_noise():
    given = inputs(4, 2, SAMPLES)
    given["prior"] = torch.ones_like(given["prior"])
    found, expected = (
        draw(operation, list(given), 2, True, *given.values())
        for operation in (draw_and_score, plain_draw_and_score)
    )
    for first, second in zip(found, expected, strict=True):
        assert bool(first.isfinite().all())
        assert torch.equal(first, second)


@pytest.mark.parametrize(
    "which, what", [("prior", "the kernel matrix of layer 7"), ("posterior", "the posterior scale")]
)
def test_nan_is_reported_with_the_name_of_the_layer(which, what):
    given = inputs(4, 2, SAMPLES)
    given[which] = given[which] * float("nan")
    posterior, prior = distributions(list(given), 2, list(given.values()))
    with pytest.raises(linalg.CholeskyError, match=f"{what}.*contains NaN") as error:
        draw_and_score(posterior, prior, SAMPLES, what="layer 7")
    assert "layer 7" in str(error.value)


def test_an_indefinite_matrix_is_named():
    given = inputs(2, 2, SAMPLES)
    given["prior"] = torch.diag(torch.tensor([1.0, -1.0])).double().expand(SAMPLES, 2, 2)
    posterior, prior = distributions(list(given), 2, list(given.values()))
    with pytest.raises(linalg.CholeskyError, match="the kernel matrix of layer 7 is not positive"):
        draw_and_score(posterior, prior, SAMPLES, what="layer 7")


def test_mixing_with_other_diagonals_is_left_to_the_distributions():
    given = inputs(4, 2, mixing=("row_mixing",))
    posterior, prior = distributions(list(given), 2, list(given.values()))
    posterior.row_mixing = 2.0 * posterior.row_mixing
    found, expected = (
        operation(posterior, prior, SAMPLES, generator=torch.Generator().manual_seed(0))
        for operation in (draw_and_score, plain_draw_and_score)
    )
    assert torch.equal(found[0], expected[0])


def test_one_scale_for_all_samples_is_one_scale_for_each():
    given = inputs(5, 3)
    names, values = list(given), list(given.values())
    shared = draw(draw_and_score, names, 3, True, *values)
    repeated = [v.expand(SAMPLES, 5, 5) if v.shape == (5, 5) else v for v in values]
    own = draw(draw_and_score, names, 3, True, *repeated)
    torch.testing.assert_close(shared[0], own[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(shared[1], own[1], rtol=1e-12, atol=1e-12)


def test_a_scale_mixed_of_something_else_than_the_prior_is_formed():
    given = with_mixed_scale(inputs(5, 3, SAMPLES), 5)
    posterior, prior = distributions(list(given), 3, list(given.values()))
    other = Wishart(3, covariance_matrix=2.0 * prior.covariance_matrix, validate_args=False)
    found, expected = (
        operation(posterior, other, SAMPLES, generator=torch.Generator().manual_seed(0))
        for operation in (draw_and_score, plain_draw_and_score)
    )
    torch.testing.assert_close(found[0], expected[0], rtol=1e-10, atol=1e-10)
    assert posterior.mixed_scale is None
    assert posterior.expand((SAMPLES,)).covariance_matrix.shape == (SAMPLES, 5, 5)
