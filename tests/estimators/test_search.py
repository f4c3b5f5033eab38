"""How many inducing points, which likelihood and how many layers, without training anything."""

import numpy as np
import pytest

from deepwishart.estimators import (
    Bound,
    Candidate,
    Fitted,
    ScaledModel,
    inducing_points,
    search_model,
)
from deepwishart.likelihoods import HeteroscedasticStudentT
from deepwishart.training import History, TrainingError

X = np.linspace(-1.0, 1.0, 20)[:, None]


def candidate(bounds, shallow=20, deep=10, error=0.01, interrupted=None, likelihood=None):
    """Models whose bounds are given by depth and inducing points."""
    options = {"likelihood": likelihood, "output": "inducing"} if likelihood else {}

    def fit(depth, points):
        bound = bounds[depth, points]
        if isinstance(bound, Exception):
            raise bound
        scaled = ScaledModel.build("dwp", X, X, depth=depth, num_inducing=points, **options)
        history = History(stopped_by="interrupt" if interrupted == depth else "max_iter")
        return Fitted(scaled, history, Bound(bound, error if depth > 1 else 0.0))

    return Candidate(fit, shallow, deep)


def search(bounds, *others, **options):
    """The search over models whose bounds are given by depth and inducing points."""
    best = search_model([candidate(bounds, **options), *others])
    tried = [(each["depth"], each["num_inducing"]) for each in best.history.tried]
    return best, (best.scaled.model.depth, best.scaled.model.num_inducing), tried


def test_a_single_layer_is_kept_when_two_are_no_better():
    _, kept, tried = search({(1, 20): 1.0, (1, 10): 0.9, (2, 10): 0.905})
    assert kept == (1, 20)
    assert tried == [(1, 20), (1, 10), (2, 10)]


def test_deeper_models_are_tried_while_the_bound_rises():
    bounds = {(1, 20): 1.0, (1, 10): 0.9, (2, 10): 1.2, (3, 10): 1.4}
    best, kept, tried = search(bounds)
    assert kept == (3, 10)
    assert tried == [(1, 20), (1, 10), (2, 10), (3, 10)]
    assert best.history.tried[3]["elbo"] == 1.4 and best.history.tried[3]["standard_error"] == 0.01


def test_the_standard_error_of_the_difference_decides():
    bounds = {(1, 10): 1.0, (2, 10): 1.2, (3, 10): 1.21}
    assert search(bounds, shallow=10)[1] == (2, 10)
    assert search(bounds, shallow=10, error=0.005)[1] == (3, 10)


def test_a_deeper_model_may_not_pay_much_for_its_fewer_points():
    """Better than a single layer with as few points, and compared with all rows almost as good."""
    bounds = {(1, 20): 1.0, (1, 10): 0.8, (3, 10): 0.0}
    assert search(bounds | {(2, 10): 0.97})[1] == (1, 20)
    assert search(bounds | {(2, 10): 0.99})[1] == (2, 10)


def test_with_as_many_points_nothing_is_trained_twice():
    _, kept, tried = search({(1, 10): 1.0, (2, 10): 0.9}, shallow=10)
    assert (kept, tried) == ((1, 10), [(1, 10), (2, 10)])


@pytest.mark.parametrize(("when", "kept"), [(1, (1, 20)), (2, (2, 10)), (3, (2, 10))])
def test_an_interrupt_ends_the_search(when, kept):
    bounds = {(1, 20): 1.0, (1, 10): 0.9, (2, 10): 1.2, (3, 10): 1.1}
    best, found, tried = search(bounds, interrupted=when)
    assert found == kept and best.history.stopped_by == "interrupt"
    assert tried[-1][0] == when


def test_a_model_that_cannot_be_trained_is_left_out():
    failure = TrainingError("NaN everywhere.", step=3, layer="layer 1", last_good=None)
    with pytest.warns(UserWarning, match=r"2 layers could not be trained .* NaN everywhere"):
        _, kept, _ = search({(1, 20): 1.0, (1, 10): 0.9, (2, 10): failure})
    assert kept == (1, 20)
    with pytest.raises(TrainingError):
        search({(1, 20): failure})


def test_the_likelihood_with_the_higher_bound_goes_on():
    noise = HeteroscedasticStudentT()
    bounds = {(1, 20): 1.0, (1, 10): 0.9, (2, 10): 1.2, (3, 10): 1.1}
    other = {(1, 10): 1.3, (2, 10): 1.5, (3, 10): 1.4}
    best, kept, tried = search(bounds, candidate(other, shallow=10, likelihood=noise))
    assert (kept, tried) == ((2, 10), [(1, 20), (1, 10), (2, 10), (3, 10)])
    names = [each["likelihood"] for each in best.history.tried]
    assert names == ["Gaussian", *["HeteroscedasticStudentT"] * 3]
    assert isinstance(best.scaled.model.likelihood, HeteroscedasticStudentT)
    lower = candidate({(1, 10): 0.95}, shallow=10, likelihood=noise)
    best, kept, tried = search(bounds, lower)
    assert (kept, tried[1:]) == ((2, 10), [(1, 10), (1, 10), (2, 10), (3, 10)])
    assert best.history.tried[-1]["likelihood"] == "Gaussian"


def test_an_interrupt_of_another_likelihood_ends_the_search():
    bounds = {(1, 20): 1.0, (1, 10): 0.9, (2, 10): 1.2}
    other = candidate({(1, 20): 0.5}, interrupted=1)
    best, kept, tried = search(bounds, other)
    assert (kept, tried) == ((1, 20), [(1, 20), (1, 20)])
    assert best.history.stopped_by == "interrupt"


def test_another_likelihood_that_cannot_be_trained_is_left_out():
    failure = TrainingError("NaN everywhere.", step=3, layer="layer 1", last_good=None)
    with pytest.warns(UserWarning, match=r"one layer could not be trained .* NaN everywhere"):
        _, kept, _ = search(
            {(1, 20): 1.0, (1, 10): 0.9, (2, 10): 0.8}, candidate({(1, 20): failure})
        )
    assert kept == (1, 20)


def test_inducing_points():
    assert inducing_points(1_500, 1) == 1_500 and inducing_points(2_000, 1) == 447
    assert inducing_points(50, 1) == inducing_points(50, 4) == 50
    assert (inducing_points(500, 2), inducing_points(9_000, 2)) == (200, 100)
    assert inducing_points(800, 1, collapsed=False) == 100
