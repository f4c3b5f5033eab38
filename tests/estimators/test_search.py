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
from deepwishart.spec import ModelSpec
from deepwishart.training import History, TrainingError

X = np.linspace(-1.0, 1.0, 20)[:, None]
NOISE = "heteroscedastic_t"


def candidate(shallow=20, deep=10, likelihood="gaussian"):
    spec = ModelSpec(num_features=1, num_inducing=deep, likelihood=likelihood)
    return Candidate(spec.replace(depth=1, num_inducing=shallow), spec)


def search(bounds, *others, error=0.01, interrupted=None, shallow=20):
    """The search over models whose bounds are given by depth, inducing points and, of other
    candidates, likelihood; training is interrupted at one of them."""

    def train(spec):
        key = (spec.depth, spec.num_inducing, spec.likelihood)
        key = key if spec.likelihood != "gaussian" else key[:2]
        bound = bounds[key]
        if isinstance(bound, Exception):
            raise bound
        history = History(stopped_by="interrupt" if interrupted == key else "max_iter")
        scaled = ScaledModel.build(spec, X, X)
        return Fitted(scaled, history, Bound(bound, error if spec.depth > 1 else 0.0))

    best = search_model([candidate(shallow), *others], train)
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


@pytest.mark.parametrize(
    ("when", "kept"),
    [((1, 20), (1, 20)), ((1, 20, NOISE), (1, 20)), ((2, 10), (2, 10)), ((3, 10), (2, 10))],
)
def test_an_interrupt_ends_the_search(when, kept):
    bounds = {(1, 20): 1.0, (1, 10): 0.9, (2, 10): 1.2, (3, 10): 1.1, (1, 20, NOISE): 0.5}
    best, found, tried = search(bounds, candidate(likelihood=NOISE), interrupted=when)
    assert found == kept and best.history.stopped_by == "interrupt"
    assert tried[-1] == when[:2]


def test_a_model_that_cannot_be_trained_is_left_out():
    failure = TrainingError("NaN everywhere.", step=3, layer="layer 1", last_good=None)
    bounds = {(1, 20): 1.0, (1, 10): 0.9, (2, 10): failure, (1, 20, NOISE): failure}
    with pytest.warns(UserWarning, match=r"2 layers could not be trained .* NaN everywhere"):
        assert search(bounds)[1] == (1, 20)
    with pytest.warns(UserWarning, match=r"one layer could not be trained .* NaN everywhere"):
        assert search(bounds | {(2, 10): 0.8}, candidate(likelihood=NOISE))[1] == (1, 20)
    with pytest.raises(TrainingError):
        search({(1, 20): failure})


def test_the_likelihood_with_the_higher_bound_goes_on():
    bounds = {(1, 20): 1.0, (1, 10): 0.9, (2, 10): 1.2, (3, 10): 1.1}
    noise = {(1, 10, NOISE): 1.3, (2, 10, NOISE): 1.5, (3, 10, NOISE): 1.4}
    other = candidate(shallow=10, likelihood=NOISE)
    best, kept, tried = search(bounds | noise, other)
    assert (kept, tried) == ((2, 10), [(1, 20), (1, 10), (2, 10), (3, 10)])
    names = [each["likelihood"] for each in best.history.tried]
    assert names == ["Gaussian", *["HeteroscedasticStudentT"] * 3]
    assert best.scaled.model.spec.likelihood == NOISE
    best, kept, tried = search(bounds | {(1, 10, NOISE): 0.95}, other)
    assert (kept, tried[1:]) == ((2, 10), [(1, 10), (1, 10), (2, 10), (3, 10)])
    assert best.history.tried[-1]["likelihood"] == "Gaussian"


def test_inducing_points():
    assert inducing_points(1_500, 1) == 1_500 and inducing_points(2_000, 1) == 447
    assert inducing_points(50, 1) == inducing_points(50, 4) == 50
    assert (inducing_points(500, 2), inducing_points(9_000, 2)) == (200, 100)
    assert inducing_points(800, 1, collapsed=False) == 100
