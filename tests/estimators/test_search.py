"""How many inducing points, which kernel and likelihood and how many layers, without training."""

import itertools
import math

import numpy as np
import pytest
import torch

import deepwishart as dw
from deepwishart.estimators import Bound, Fitted, ScaledModel, search_model
from deepwishart.estimators.search import start_near
from deepwishart.spec import ModelSpec
from deepwishart.training import History, TrainingError, inducing_points

X = np.linspace(-1.0, 1.0, 20)[:, None]
PLAIN, NOISE, ROUGH = "gaussian", "heteroscedastic_t", "matern32"
KERNELS = {"kernel": ["squared_exponential", ROUGH], "likelihood": [PLAIN]}
LIKELIHOODS = {"kernel": ["squared_exponential"], "likelihood": [PLAIN, NOISE]}
PLAINLY = {"kernel": ["squared_exponential"], "likelihood": [PLAIN]}


def search(
    bounds, choices=PLAINLY, *, deepest=3, rows=10**6, error=0.01, interrupted=None, shallow=20
):
    """The search over models whose bounds are given by depth, inducing points and options other
    than the first; training is interrupted at one of them."""

    def make(depth, kernel, likelihood):
        points = 10 if depth > 1 or likelihood == NOISE else shallow
        names = {"kernel": kernel, "likelihood": likelihood}
        return ModelSpec(num_features=1, num_inducing=points, depth=depth, **names)

    def train(spec, near):
        others = [each for each in (spec.kernel, spec.likelihood) if each in (ROUGH, NOISE)]
        key = (spec.depth, spec.num_inducing, *others)
        bound = bounds[key]
        if isinstance(bound, Exception):
            raise bound
        history = History(stopped_by="interrupt" if interrupted == key else "max_iter")
        found = Bound(bound, error if spec.depth > 1 else 0.0)
        return Fitted(ScaledModel.build(spec, X, X), history, found)

    best = search_model(make, train, choices, rows, deepest)
    tried = [(each["depth"], each["num_inducing"]) for each in best.history.tried]
    return best, (best.scaled.model.depth, best.scaled.model.num_inducing), tried


def test_a_single_layer_is_kept_when_two_are_no_better():
    _, kept, tried = search({(1, 20): 1.0, (2, 10): 1.005})
    assert kept == (1, 20)
    assert tried == [(1, 20), (2, 10)]


def test_deeper_models_are_tried_while_the_bound_rises():
    bounds = {(1, 20): 1.0, (2, 10): 1.2, (3, 10): 1.4}
    best, kept, tried = search(bounds)
    assert kept == (3, 10)
    assert tried == [(1, 20), (2, 10), (3, 10)]
    assert best.history.tried[2]["elbo"] == 1.4 and best.history.tried[2]["standard_error"] == 0.01


def test_the_standard_error_of_the_difference_decides():
    bounds = {(1, 20): 1.0, (2, 10): 1.2, (3, 10): 1.21}
    assert search(bounds)[1] == (2, 10)
    assert search(bounds, error=0.005)[1] == (3, 10)


def test_no_model_is_deeper_than_asked_for():
    bounds = {(1, 20): 0.0, (1, 20, ROUGH): 1.0}
    assert search(bounds, KERNELS, deepest=1)[1:] == ((1, 20), [(1, 20), (1, 20)])


@pytest.mark.parametrize(
    ("when", "kept"),
    [((1, 20), (1, 20)), ((1, 10, NOISE), (1, 20)), ((2, 10), (2, 10)), ((3, 10), (2, 10))],
)
def test_an_interrupt_ends_the_search(when, kept):
    bounds = {(1, 20): 1.0, (2, 10): 1.2, (3, 10): 1.1, (1, 10, NOISE): 0.5}
    best, found, tried = search(bounds, LIKELIHOODS, interrupted=when)
    assert found == kept and best.history.stopped_by == "interrupt"
    assert tried[-1] == when[:2]


def test_a_model_that_cannot_be_trained_is_left_out():
    failure = TrainingError("NaN everywhere.", step=3, layer="layer 1", last_good=None)
    bounds = {(1, 20): 1.0, (2, 10): failure, (1, 10, NOISE): failure}
    with pytest.warns(UserWarning, match=r"2 layers could not be trained .* NaN everywhere"):
        assert search(bounds)[1] == (1, 20)
    with pytest.warns(UserWarning, match=r"one layer could not be trained .* NaN everywhere"):
        assert search(bounds | {(2, 10): 0.8}, LIKELIHOODS)[1] == (1, 20)
    with pytest.raises(TrainingError):
        search({(1, 20): failure})


def test_the_likelihood_with_the_higher_bound_goes_on():
    bounds = {(1, 20): 1.0, (2, 10): 1.2, (3, 10): 1.1}
    noise = {(1, 10, NOISE): 1.3, (2, 10, NOISE): 1.5, (3, 10, NOISE): 1.4}
    best, kept, tried = search(bounds | noise, LIKELIHOODS)
    assert (kept, tried) == ((2, 10), [(1, 20), (1, 10), (2, 10), (3, 10)])
    names = [each["likelihood"] for each in best.history.tried]
    assert names == ["Gaussian", *["HeteroscedasticStudentT"] * 3]
    assert best.scaled.model.spec.likelihood == NOISE
    best, kept, tried = search(bounds | {(1, 10, NOISE): 0.95}, LIKELIHOODS)
    assert (kept, tried[1:]) == ((2, 10), [(1, 10), (2, 10), (3, 10)])
    assert best.history.tried[-1]["likelihood"] == "Gaussian"


def test_the_best_kernel_is_that_of_all_models_that_follow():
    choices = {**KERNELS, "likelihood": [PLAIN, NOISE]}
    bounds = {(1, 20): 0.0, (1, 20, ROUGH): 1.0, (1, 10, ROUGH, NOISE): 0.5}
    best, kept, _ = search(bounds | {(2, 10, ROUGH): 0.8}, choices)
    assert kept == (1, 20)
    kernels = [each["kernel"] for each in best.history.tried]
    assert kernels == ["SquaredExponential", *["Matern32"] * 3]


@pytest.mark.parametrize("rows", [50, 5_000])
def test_parameters_of_kernels_have_to_pay_for_themselves(rows):
    """Half a log of the number of rows each, by the criterion of Schwarz; a second layer above two
    inputs has four more than one."""
    costs = {"rational_quadratic": 1, 2: 4}
    for (what, count), factor in itertools.product(costs.items(), (0.9, 1.1)):
        gain = factor * 0.5 * count * math.log(rows) / rows

        def train(spec, near, what=what, gain=gain):
            better = what in (spec.kernel, spec.depth)
            scaled = ScaledModel.build(spec, np.hstack([X, X**2]), X)
            return Fitted(scaled, History(), Bound(gain * better, 0.0))

        def make(depth, kernel):
            options = {"output": "collapsed", "inputs": "all", "kernel": kernel}
            return ModelSpec(num_features=2, num_inducing=5, depth=depth, **options)

        names = ["squared_exponential", "rational_quadratic"] if what != 2 else ["matern52"]
        kept = search_model(make, train, {"kernel": names}, rows, 2).scaled.model.spec
        assert (what in (kept.kernel, kept.depth)) == (factor > 1)


def test_a_model_starts_near_another_only_where_that_is_better():
    data = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    options = {"depth": 1, "output": "collapsed"}
    near, model = (dw.build("dwp", data, data.sin(), seed=s, **options) for s in (0, 1))
    with torch.no_grad():
        near.output.kernel.log_lengthscale.fill_(-20.0)
    start = model.state_dict()["output.kernel.log_lengthscale"].clone()
    start_near(model, near, data, data.sin())
    assert torch.equal(model.output.kernel.log_lengthscale, start)
    with torch.no_grad():
        near.output.kernel.log_lengthscale.fill_(0.3)
        model.output.kernel.log_lengthscale.fill_(-20.0)
    start_near(model, near, data, data.sin())
    assert model.output.kernel.log_lengthscale.item() == pytest.approx(0.3)


def test_inducing_points():
    assert inducing_points(1_500, 1) == 1_500 and inducing_points(2_000, 1) == 447
    assert inducing_points(50, 1) == inducing_points(50, 4) == 50
    assert (inducing_points(500, 2), inducing_points(9_000, 2)) == (200, 100)
    assert inducing_points(800, 1, collapsed=False) == 100
