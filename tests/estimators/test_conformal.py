"""Conformal intervals cover what they promise, whatever the model is worth."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from deepwishart.estimators import DeepKernelRegressor, record
from deepwishart.estimators.evaluation import conformal_quantile
from deepwishart.persistence import ModelFileError


def rows(count, random):
    """Two targets with noise that is skewed and grows with x, none of which the model knows."""
    X = random.uniform(-2, 2, size=(count, 1))
    noise = random.exponential(size=(count, 2)) * np.exp(0.5 * X)
    return X, np.c_[np.sin(X), 100 * X] + noise * [1.0, 50.0]


@pytest.fixture(scope="module")
def overconfident():
    """Trained on targets without noise."""
    X = np.linspace(-2, 2, 30)[:, None]
    regressor = DeepKernelRegressor(depth=1, max_iter=60, n_predict_samples=2, random_state=0)
    return regressor.fit(X, np.c_[np.sin(X), 100 * X])


def inside(interval, y):
    lower, upper = interval
    return ((lower <= y) & (y <= upper)).mean(0)


def test_coverage_is_what_was_asked_for(overconfident):
    """Over calibration and test rows it is :math:`\\lceil (n+1)c \\rceil / (n+1)` exactly."""
    random = np.random.default_rng(0)
    X, y = rows(400, random)
    assert (inside(overconfident.predict_interval(X, 0.9), y) < 0.4).all()
    covered = np.zeros((2, 2))
    for _ in range(150):
        overconfident.calibrate(*rows(39, random))
        X, y = rows(400, random)
        for index, coverage in enumerate((0.8, 0.89)):
            interval = overconfident.predict_interval(X, coverage, conformal=True)
            covered[index] += inside(interval, y) / 150
    exact = np.array([32 / 40, 36 / 40])
    assert (np.abs(covered - exact[:, None]) < 4 * np.sqrt(exact * (1 - exact) / 41 / 150)).all()


@pytest.mark.filterwarnings("ignore:The bound", "ignore:Training ended")  # a few steps
def test_the_interval_of_counts_has_the_row_that_set_it():
    """It is at the very end, and rounding to whole numbers must not put it outside."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, size=(60, 1))
    y = random.poisson(np.exp(X[:, 0] + 1)).astype(float)
    regressor = DeepKernelRegressor(
        depth=1, likelihood="poisson", max_iter=20, n_inducing=10, random_state=0
    ).fit(X, y)
    for row in range(40):
        regressor.calibrate(X[row : row + 1], y[row : row + 1])
        lower, upper = regressor.predict_interval(X[row : row + 5], 0.5, conformal=True)
        assert lower[0] <= y[row] <= upper[0]


@pytest.mark.parametrize(("count", "coverage"), [(9, 0.9), (19, 0.95), (99, 0.99)])
def test_the_last_score_serves_as_long_as_there_are_enough(count, coverage):
    scores = np.arange(1.0, count + 1)[::-1, None]
    assert conformal_quantile(scores, coverage) == [count]
    with pytest.raises(ValueError, match=f"at least {count} calibration rows, there are"):
        conformal_quantile(scores[1:], coverage)


def test_scores_are_saved_with_the_model_and_a_new_fit_forgets(make, data, tmp_path):
    X, y = data
    regressor = make(max_iter=2).fit(X[:40], y[:40])
    with pytest.raises(NotFittedError, match=r"call calibrate\(X, y\) after fit"):
        regressor.predict_interval(X, conformal=True)
    with pytest.raises(ValueError, match=r"y must have shape \(20,\), got \(20, 1\)"):
        regressor.calibrate(X[40:], y[40:, None])
    regressor.calibrate(X[40:], y[40:]).save(tmp_path / "model")
    again = DeepKernelRegressor.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict_interval(X, conformal=True), regressor.predict_interval(X, conformal=True)
    )
    tensors, config, history = record.to_record(regressor)
    for bad in (torch.zeros(3), torch.zeros(3, 2), -torch.ones(3, 1), torch.ones(3, 1).long()):
        with pytest.raises(ModelFileError, match="no distances of rows"):
            changed = {**tensors, "conformity_scores": bad}
            record.from_record(DeepKernelRegressor, changed, config, history)
    assert not hasattr(regressor.fit(X, y), "conformity_scores_")
