"""What the regressor chooses by itself, and what it says when things go wrong."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from deepwishart.estimators import DeepKernelClassifier, DeepKernelRegressor, base
from deepwishart.likelihoods import Gaussian, HeteroscedasticStudentT
from deepwishart.training import Protocol

QUICK = {"n_samples": 2, "n_predict_samples": 20, "max_iter": 60, "random_state": 0}


@pytest.fixture(scope="module")
def chosen(data):
    """Everything left to the regressor, but for short training."""
    return DeepKernelRegressor(**QUICK).fit(*data)


def test_exact_gaussian_processes_come_first(chosen):
    """Four kernels and then the noise, with all rows as inducing points; then depth."""
    *plain, varying, deeper = chosen.history_.tried[:6]
    names = ["SquaredExponential", "Matern52", "Matern32", "RationalQuadratic"]
    assert [each["kernel"] for each in plain] == names
    assert {each["likelihood"] for each in plain} == {"Gaussian"}
    assert {each["num_inducing"] for each in (*plain, varying)} == {60}
    assert varying["likelihood"] == "HeteroscedasticStudentT"
    assert plain[0]["standard_error"] == 0.0 < deeper["standard_error"]
    singles = [each["depth"] for each in (*plain, varying)]
    assert singles == [1] * 5 and deeper["depth"] == 2 and deeper["kernel"] == names[0]


def test_what_is_kept_has_the_highest_bound(chosen):
    best = max(chosen.history_.tried, key=lambda each: each["elbo"])
    assert chosen.elbo_ > best["elbo"] - 0.05  # standard errors and parameters of kernels count
    kept = next(each for each in chosen.history_.tried if each["elbo"] == chosen.elbo_)
    assert (chosen.model_.depth, chosen.n_inducing_) == (kept["depth"], kept["num_inducing"])
    assert type(chosen.model_.likelihood).__name__ == kept["likelihood"]
    assert (chosen.depth, chosen.n_inducing, chosen.kernel) == ("auto",) * 3


def test_of_many_rows_some_choose_the_kernel(monkeypatch):
    """A rough function is given a rough kernel by a part of the rows, and all rows train it."""
    monkeypatch.setattr(base, "ALL_ROWS", 100)
    monkeypatch.setattr(base, "_KERNEL_ROWS", 80)
    X = np.random.default_rng(0).uniform(-2, 2, (150, 1))
    y = np.abs(np.abs(X[:, 0]) - 1.0) + np.sign(X[:, 0])
    regressor = DeepKernelRegressor(depth=1, random_state=0).fit(X, y)
    assert regressor.spec_.kernel != "squared_exponential"
    tried = regressor.history_.tried
    assert [each["num_inducing"] for each in tried[:4]] == [80] * 4 and len(tried) == 5
    assert len(regressor.model_.training_inputs) == 150
    named = DeepKernelRegressor(depth=1, kernel="matern52", random_state=0).fit(X, y)
    assert named.spec_.kernel == "matern52" and len(named.history_.tried) == 0


@pytest.fixture(scope="module")
def uneven():
    """A table whose noise is ten times as large on one side, and its regressor."""
    random = np.random.default_rng(2)
    X = random.uniform(-2, 2, (150, 1))
    y = 50 + np.sin(X[:, 0]) + np.where(X[:, 0] > 0, 0.5, 0.05) * random.standard_normal(150)
    quick = {**QUICK, "max_iter": 150, "n_inducing": 20}
    return X, y, DeepKernelRegressor(**quick, warm_start=True).fit(X, y)


def test_noise_that_depends_on_the_inputs_is_found(uneven, tmp_path):
    X, y, regressor = uneven
    assert isinstance(regressor.model_.likelihood, HeteroscedasticStudentT)
    lower, upper = regressor.predict_interval([[-1.0], [1.0]])
    narrow, wide = upper - lower
    assert wide > 4 * narrow
    regressor.save(tmp_path / "model")
    again = DeepKernelRegressor.load(tmp_path / "model")
    assert again.likelihood == "auto" and again.history_.tried == regressor.history_.tried
    np.testing.assert_array_equal(again.predict_interval(X), regressor.predict_interval(X))
    assert again.fit(X, y).n_iter_ > regressor.n_iter_  # a warm start goes on with it
    assert isinstance(again.model_.likelihood, HeteroscedasticStudentT)


def test_a_classifier_chooses_its_depth_too(data, tmp_path):
    X, _ = data
    y = np.where(np.hypot(*X.T) > 1.2, "out", "in")
    classifier = DeepKernelClassifier(**{**QUICK, "n_inducing": 15}, depth="auto", warm_start=True)
    first, *deeper = classifier.fit(X, y).history_.tried
    assert first["depth"] == 1 and [each["depth"] for each in deeper] in ([2], [2, 3])
    assert first["likelihood"] == deeper[0]["likelihood"] == "Bernoulli"
    best = max((first, *deeper), key=lambda each: each["elbo"])
    assert classifier.elbo_ >= best["elbo"] - 0.02 and classifier.score(X, y) > 0.8
    classifier.save(tmp_path / "model")
    again = DeepKernelClassifier.load(tmp_path / "model")
    assert again.depth == "auto" and again.history_.tried == classifier.history_.tried
    np.testing.assert_array_equal(again.predict_proba(X), classifier.predict_proba(X))
    steps, depth = again.n_iter_, again.model_.depth
    assert again.fit(X, y).n_iter_ > steps and again.model_.depth == depth


def test_a_single_layer_of_noise_is_kept_and_training_settles(data):
    X, _ = data
    y = np.random.default_rng(1).standard_normal(len(X))
    quick = {**QUICK, "max_iter": 600, "posterior": "bartlett"}
    regressor = DeepKernelRegressor(**quick).fit(X, y)
    first, *_, third = regressor.history_.tried
    assert regressor.model_.depth == 1 and regressor.history_.stopped_by == "converged"
    assert isinstance(regressor.model_.likelihood, Gaussian)
    assert first["elbo"] > -1.45 and third["steps"] < 600


def test_training_that_ends_too_early_warns(make, data):
    slow = Protocol(150, 1e-3, 1e-3, "constant", kl_anneal=0, num_samples=2)
    regressor = make(protocol=slow, max_iter=None, learning_rate=None)
    with pytest.warns(ConvergenceWarning, match=r"150 steps while the bound was rising.*max_iter"):
        regressor.fit(*data)


def test_a_bound_below_that_of_knowing_nothing_warns(make, data):
    with pytest.warns(UserWarning, match=r"is below -1\.42.*depth='auto'.*outliers"):
        make(depth=4, max_iter=1, inputs="first").fit(*data)


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


@pytest.mark.filterwarnings("ignore:The bound", "ignore:Training ended")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"posterior": "anchored", "inputs": "all", "bound": "tight", "output": "collapsed"}),
        ({}, {"kernel": "squared_exponential", "mixing": 0.0}),
        ({"protocol": "paper"}, {"posterior": "bartlett", "output": "inducing", "mixing": 0.018}),
        ({"protocol": "paper"}, {"inputs": "first", "bound": "titsias2009"}),
        ({"process": "dgp"}, {"posterior": "bartlett", "inputs": "all", "output": "collapsed"}),
        ({"process": "diwp"}, {"inputs": "first", "bound": "tight"}),
        ({"likelihood": "student_t"}, {"posterior": "rows_columns", "inputs": "first"}),
        ({"kernel": "relu"}, {"kernel": "relu", "inputs": "first"}),
        ({"posterior": "columns", "inputs": "first"}, {"posterior": "columns", "inputs": "first"}),
        ({"batch_size": 20}, {"output": "inducing"}),
        ({"n_inducing": "auto"}, {"num_inducing": 60, "depth": 2}),
        ({"likelihood": "student_t"}, {"output": "inducing", "likelihood": "student_t"}),
        ({"depth": "auto", "output": "collapsed"}, {"likelihood": "gaussian"}),
        ({"depth": "auto", "protocol": "paper"}, {"likelihood": "gaussian"}),
    ],
)
def test_parameters_become_a_specification(make, data, given, expected):
    spec = make(**{"max_iter": 2, **given}).fit(*data).spec_
    assert {name: getattr(spec, name) for name in expected} == expected


def test_hidden_layers_start_where_they_are_told(make, data):
    """Close to the prior, the posterior's divergence from it is next to nothing."""

    def divergence(start):
        regressor = make(start=start, depth=3, max_iter=1, learning_rate=1e-9).fit(*data)
        random = regressor.model_.randomness(200, torch.Generator().manual_seed(0))
        layers = regressor.model_.sample(random).layers
        return -sum(layer.log_ratio.mean() for layer in layers).item()

    assert abs(divergence("prior")) < 0.1 * divergence("inputs")


@pytest.mark.slow
def test_one_row_a_million_spreads_away():
    """Heavy tails explain it, the fit names it, and the rest is predicted as if it were not."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (100, 1))
    clean = np.sin(2 * X[:, 0])
    y = clean + 0.1 * random.standard_normal(100)
    y[7] = 1e6
    regressor = DeepKernelRegressor(depth=1, likelihood="heteroscedastic_t", random_state=0)
    with pytest.warns(UserWarning, match=r"in 1 of 100 rows \(counted from 0: 7\).*student_t"):
        regressor.fit(X, y)
    mean = regressor.predict(X)
    lower, upper = regressor.predict_interval(X)
    assert np.sqrt(np.mean((mean - clean) ** 2)) < 0.1
    assert np.median(upper - lower) < 1.0  # 0.33 without the row
