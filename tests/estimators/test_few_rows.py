"""Fewer than ten rows, and tables with more columns than rows: intervals admit what is unknown."""

import numpy as np
import pytest

from deepwishart.estimators import DeepKernelRegressor
from deepwishart.estimators.few_rows import widening

pytestmark = pytest.mark.filterwarnings("ignore:.* rows cannot tell")


def test_widened_intervals_cover_what_follows_from_one_normal_distribution():
    random, trials = np.random.default_rng(0), 20_000
    for rows in (2, 5, 30):
        drawn = random.normal(size=(trials, rows + 1))
        known, new = drawn[:, :-1], drawn[:, -1]
        reach = 1.645 * widening(rows) * known.std(1)
        covered = np.abs(new - known.mean(1)) <= reach
        # Four standard errors of a share.
        assert covered.mean() == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / trials))


def coverage(rows: int, columns: int, function, trials: int) -> float:
    found = []
    for seed in range(trials):
        random = np.random.default_rng(seed)
        X = random.normal(size=(rows + 100, columns))
        y = function(X) + 0.4 * random.normal(size=len(X))
        regressor = DeepKernelRegressor(random_state=0).fit(X[:rows], y[:rows])
        assert regressor.model_.depth == 1 and regressor.spec_.ard == (columns == 1)
        low, high = regressor.predict_interval(X[rows:])
        found.append(np.mean((low <= y[rows:]) & (y[rows:] <= high)))
    return float(np.mean(found))


@pytest.mark.parametrize("rows, columns", [(2, 1), (3, 3), (9, 1), (20, 50), (20, 1000)])
@pytest.mark.parametrize("function", [lambda X: 0.0 * X[:, 0], lambda X: np.sin(2 * X[:, 0])])
def test_intervals_cover_about_what_they_should(rows, columns, function):
    """Without priors and widening 15% at two rows, and 17% at a thousand columns. Over ten tables
    the share scatters by up to 0.05."""
    assert 0.75 <= coverage(rows, columns, function, trials=10) <= 1.0


def test_few_rows_are_told_apart_by_a_warning():
    X = np.linspace(0.0, 1.0, 9)[:, None]
    with pytest.warns(UserWarning, match="9 rows cannot tell"):
        DeepKernelRegressor(random_state=0).fit(X, np.sin(X.ravel()))


def test_one_lengthscale_or_many_is_a_matter_of_evidence():
    """Of 60 rows and 8 columns: one column matters, or all alike."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 8))
    for y, ard in ((np.sin(2 * X[:, 0]), True), (np.sin(X.sum(1) / 3), False)):
        regressor = DeepKernelRegressor(depth=1, kernel="squared_exponential", random_state=0)
        regressor.fit(X, y + 0.1 * random.normal(size=60))
        assert regressor.spec_.ard is ard
        assert len(regressor.history_.tried) == 2


def test_a_thousand_columns_start_where_the_kernel_has_a_slope():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 100))
    y = X[:, :5].sum(1) / np.sqrt(5.0)
    regressor = DeepKernelRegressor(depth=1, kernel="squared_exponential", ard=True, random_state=0)
    regressor.fit(X[:150], y[:150])
    assert np.corrcoef(regressor.predict(X[150:]), y[150:])[0, 1] > 0.9
