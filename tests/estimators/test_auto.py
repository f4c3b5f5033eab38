"""What the regressor chooses by itself, and what it says when things go wrong."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from deepwishart.estimators import DeepKernelRegressor
from deepwishart.training import Protocol

QUICK = {"n_samples": 2, "n_predict_samples": 20, "max_iter": 60, "random_state": 0}


@pytest.fixture(scope="module")
def chosen(data):
    """Everything left to the regressor, but for short training."""
    return DeepKernelRegressor(**QUICK).fit(*data)


def test_a_single_layer_comes_first_with_all_rows(chosen):
    tried = chosen.history_.tried
    assert (tried[0]["depth"], tried[0]["num_inducing"]) == (1, 60)
    assert tried[0]["standard_error"] == 0.0 < tried[1]["standard_error"]
    assert [each["depth"] for each in tried] == list(range(1, len(tried) + 1))
    kept = next(each for each in tried if each["depth"] == chosen.model_.depth)
    assert chosen.elbo_ == kept["elbo"] > tried[0]["elbo"] - 0.02
    assert chosen.n_inducing_ == kept["num_inducing"]
    assert (chosen.depth, chosen.n_inducing) == ("auto", "auto")


def test_what_was_tried_is_saved(chosen, data, tmp_path):
    chosen.save(tmp_path / "model")
    again = DeepKernelRegressor.load(tmp_path / "model")
    assert again.history_.tried == chosen.history_.tried and again.depth == "auto"
    np.testing.assert_array_equal(again.predict(data[0]), chosen.predict(data[0]))


def test_warm_start_goes_on_with_what_was_chosen(data):
    regressor = DeepKernelRegressor(**QUICK, warm_start=True).fit(*data)
    depth, steps = regressor.model_.depth, regressor.n_iter_
    assert regressor.fit(*data).model_.depth == depth and regressor.n_iter_ > steps


def test_a_single_layer_of_noise_is_kept_and_training_settles(data):
    X, _ = data
    y = np.random.default_rng(1).standard_normal(len(X))
    regressor = DeepKernelRegressor(**{**QUICK, "max_iter": 600}).fit(X, y)
    first, second = regressor.history_.tried
    assert regressor.model_.depth == 1 and regressor.history_.stopped_by == "converged"
    assert first["elbo"] > -1.45 and second["steps"] < 600


def test_training_that_ends_too_early_warns(make, data):
    slow = Protocol(150, 1e-3, 1e-3, "constant", kl_anneal=0, num_samples=2)
    regressor = make(protocol=slow, max_iter=None, learning_rate=None)
    with pytest.warns(ConvergenceWarning, match=r"150 steps while the bound was rising.*max_iter"):
        regressor.fit(*data)


def test_a_bound_below_that_of_knowing_nothing_warns(make, data):
    with pytest.warns(UserWarning, match=r"is below -1\.42.*depth='auto'.*outliers"):
        make(depth=4, max_iter=1).fit(*data)


@pytest.mark.parametrize("seed", range(3))
def test_outliers_that_no_inducing_point_knows(make, seed):
    """Two rows hold a column's variance: the start that could not be trained out of."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((150, 3))
    X[:, 1] *= 1e-3
    X[:2, 1] = 30.0
    y = np.sin(X[:, 0]) + 0.1 * random.standard_normal(150)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make(random_state=seed, max_iter=60, n_inducing=20).fit(X, y).elbo_ > -1.2
