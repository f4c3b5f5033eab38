"""The regressor with every likelihood."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from deepwishart import DeepKernelRegressor, likelihoods
from deepwishart.estimators.checks import LIKELIHOODS
from deepwishart.estimators.relevance import dependence
from deepwishart.persistence import ModelFileError

pytestmark = pytest.mark.filterwarnings("ignore:Training ended", "ignore:The bound")
TINY = {"n_inducing": 6, "max_iter": 3, "n_samples": 2, "n_predict_samples": 5, "random_state": 0}
PROCESSES = ["dwp", "dgp", "dsvi", "diwp"]


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (40, 3))
    X[:, 2] = random.uniform(0.5, 20, 40)
    return X, random.poisson(X[:, 2] * np.exp(X[:, 0])).astype(float)


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("likelihood", [name for name in LIKELIHOODS if name != "gaussian"])
def test_minibatches_files_and_warm_start(table, likelihood, process, tmp_path):
    X, y = table
    depth = 1 if process == "dsvi" else 2
    regressor = DeepKernelRegressor(
        process, depth, likelihood=likelihood, batch_size=16, warm_start=True, **TINY
    ).fit(X, np.c_[y, y + 1])
    assert regressor.model_.output.needs_rows is False
    regressor.save(tmp_path / "model")
    loaded = DeepKernelRegressor.load(tmp_path / "model")
    for each in (loaded, pickle.loads(pickle.dumps(regressor))):
        assert np.array_equal(each.predict(X), regressor.predict(X))
        assert np.array_equal(each.predict_interval(X), regressor.predict_interval(X))
    both = [each.fit(X, np.c_[y, y + 1]) for each in (regressor, loaded)]
    assert both[0].n_iter_ == both[1].n_iter_ == 6
    assert np.array_equal(both[0].predict(X), both[1].predict(X))
    with pytest.raises(ValueError, match="whose likelihood is"):
        regressor.set_params(likelihood=likelihoods.Gaussian(2)).fit(X, np.c_[y, y + 1])


def test_counts_are_left_as_they_are(table):
    X, y = table
    options = {**TINY, "max_iter": 60, "n_predict_samples": 20}
    regressor = DeepKernelRegressor(likelihood="poisson", exposure=2, **options).fit(X, y)
    assert regressor._scaled.targets.scale.tolist() == [1.0]
    lower, upper = regressor.predict_interval(X)
    assert np.array_equal(lower, lower.round()) and np.array_equal(upper, upper.round())
    assert 0.8 < np.mean((lower <= y) & (y <= upper)) <= 1.0
    assert regressor.score(X, y) > 0.9
    more = X * [1.0, 1.0, 100.0]
    np.testing.assert_allclose(regressor.predict(more), 100 * regressor.predict(X), rtol=1e-9)
    few, values = [rows[:5] for rows in (X, more)], np.linspace(-1, 1, 3)[:, None]
    curves = [dependence(regressor, rows, [0], values).mean for rows in few]
    np.testing.assert_allclose(curves[1], 100 * curves[0], rtol=1e-9)
    assert np.isfinite(regressor.log_prob(X, y)).all()
    lower, upper = regressor.calibrate(X, y).predict_interval(X, conformal=True)
    assert np.array_equal(lower, lower.round()) and np.array_equal(upper, upper.round())


@pytest.mark.parametrize("change", [lambda y: -y, lambda y: y + 0.5, lambda y: y * 1e16])
def test_what_is_no_count_is_refused(table, change):
    X, y = table
    with pytest.raises(ValueError, match=r"Column 0 of y .* in row 0, which is no whole number"):
        DeepKernelRegressor(likelihood="negative_binomial", **TINY).fit(X, change(y))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"likelihood": "poisson", "exposure": 3}, "is no column of X, which has 3"),
        ({"likelihood": likelihoods.Poisson(1, exposure=True)}, "say in which column"),
        ({"likelihood": likelihoods.StudentT(2)}, "set its num_outputs"),
        ({"likelihood": "student_t", "output": "collapsed"}, "StudentT needs output='inducing'"),
    ],
)
def test_bad_choices_get_plain_answers(table, parameters, message):
    with pytest.raises(ValueError, match=message):
        DeepKernelRegressor(**parameters, **TINY).fit(*table)


def test_an_object_is_copied_and_not_saved(table, tmp_path):
    likelihood = likelihoods.StudentT(1, degrees=3.0)
    regressor = clone(DeepKernelRegressor(likelihood=likelihood, **TINY)).fit(*table)
    assert float(likelihood.degrees.detach()) == pytest.approx(3.0)
    assert isinstance(regressor.model_.likelihood, likelihoods.StudentT)
    with pytest.raises(ModelFileError, match=r"likelihood=StudentT\(...\), an object"):
        regressor.save(tmp_path / "model")
