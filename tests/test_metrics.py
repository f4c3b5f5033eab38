"""Scores against SciPy, numerical integration and arithmetic done by hand."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import deepwishart as dw
from deepwishart import metrics
from deepwishart.estimators import DeepKernelRegressor


@pytest.fixture(scope="module")
def mixture():
    """Means and standard deviations (S, N, D), targets (N, D)."""
    random = np.random.RandomState(0)
    mean = random.normal(size=(4, 6, 2))
    std = random.uniform(0.2, 2.0, size=(4, 6, 2))
    return mean, std, random.normal(scale=2.0, size=(6, 2))


# ---- log likelihood and error -------------------------------------------------------------------


def test_log_likelihood_is_a_mixture_over_whole_rows(mixture):
    mean, std, y = mixture
    density = stats.norm(mean, std).pdf(y).prod(-1).mean(0)
    per_row = metrics.log_likelihood((mean, std), y, per_row=True)
    np.testing.assert_allclose(per_row, np.log(density), rtol=1e-12)
    average = metrics.log_likelihood((mean, std), y)
    assert isinstance(average, float)
    assert average == pytest.approx(np.log(density).mean(), rel=1e-12)


def test_rmse_is_that_of_the_mean(mixture):
    mean, std, y = mixture
    expected = math.sqrt(((mean.mean(0) - y) ** 2).mean())
    assert metrics.rmse((mean, std), y) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_extreme_units(scale, mixture):
    mean, std, y = mixture
    prediction, target = (scale * mean, scale * std), scale * y
    assert metrics.rmse(prediction, target) / scale == pytest.approx(
        metrics.rmse((mean, std), y), rel=1e-12
    )
    assert metrics.crps(prediction, target) / scale == pytest.approx(
        metrics.crps((mean, std), y), rel=1e-12
    )


# ---- CRPS ---------------------------------------------------------------------------------------


def integrated_crps(mean, std, y):
    def squared(x):
        return (stats.norm(mean, std).cdf(x).mean() - (x >= y)) ** 2

    ends = [min(y, (mean - 12 * std).min()), max(y, (mean + 12 * std).max())]
    options = {"epsabs": 1e-11, "epsrel": 1e-11, "limit": 500}
    return sum(integrate.quad(squared, a, b, **options)[0] for a, b in ((ends[0], y), (y, ends[1])))


def test_crps_is_the_integral(mixture):
    mean, std, y = mixture
    per_target = metrics.crps((mean, std), y, per_row=True)
    assert per_target.shape == (6, 2)
    for row in range(6):
        for column in range(2):
            expected = integrated_crps(mean[:, row, column], std[:, row, column], y[row, column])
            assert per_target[row, column] == pytest.approx(expected, rel=1e-8)
    assert metrics.crps((mean, std), y) == pytest.approx(per_target.mean(), rel=1e-14)


def test_crps_in_small_blocks(monkeypatch, mixture):
    mean, std, y = mixture
    whole = metrics.crps((mean, std), y, per_row=True)
    monkeypatch.setattr(metrics, "_PAIR_ELEMENTS", 1)
    np.testing.assert_allclose(metrics.crps((mean, std), y, per_row=True), whole, rtol=1e-14)


# ---- calibration --------------------------------------------------------------------------------


def test_coverage_and_calibration_of_the_truth():
    random = np.random.RandomState(1)
    mean, std = random.normal(size=20_000), random.uniform(0.5, 2, size=20_000)
    y = mean + std * random.normal(size=20_000)
    assert metrics.interval_coverage((mean, std), y, 0.8) == pytest.approx(0.8, abs=0.01)
    levels, observed = metrics.calibration_curve((mean, std), y)
    np.testing.assert_allclose(levels, np.arange(1, 20) / 20)
    np.testing.assert_allclose(observed, levels, atol=0.01)


class PoissonGuess:
    """Counts of known means, which no model had to learn."""

    gaussian, discrete = False, True

    def __init__(self, mean):
        self.law = stats.poisson(mean)

    def cdf(self, y):
        return self.law.cdf(np.asarray(y))


@pytest.mark.parametrize(("low", "high"), [(0.05, 0.1), (0.1, 3.0), (20.0, 50.0)])
def test_calibrated_counts_are_on_the_diagonal(low, high):
    """Also where most of them are zero; 20,000 rows are known to 0.0035."""
    random = np.random.RandomState(0)
    mean = random.uniform(low, high, size=20_000)
    levels, observed = metrics.calibration_curve(PoissonGuess(mean), random.poisson(mean))
    np.testing.assert_allclose(observed, levels, atol=0.012)
    too_high = metrics.calibration_curve(PoissonGuess(1.5 * mean), random.poisson(mean)).observed
    assert (too_high > levels + 0.001).all()


def test_a_count_gives_the_share_of_its_step():
    guess, at = PoissonGuess(np.ones(2)), math.exp(-1)  # F(0) is 1/e and F(1) is 2/e
    curve = metrics.calibration_curve(guess, [0.0, 1.0], [0.2, 0.5, 0.9])
    expected = [0.1 / at, 0.5 * (1.0 + (0.5 - at) / at), 1.0]
    np.testing.assert_allclose(curve.observed, expected, rtol=1e-12)


# ---- kinds of prediction ------------------------------------------------------------------------

SCORES = [metrics.log_likelihood, metrics.rmse, metrics.crps, metrics.interval_coverage]


@pytest.mark.parametrize("score", SCORES)
def test_arrays_tensors_and_shapes(score, mixture):
    mean, std, y = mixture
    expected = score((mean, std), y)
    assert score((torch.as_tensor(mean), torch.as_tensor(std)), torch.as_tensor(y)) == expected
    one = score((mean[:, :, :1], std[:, :, :1]), y[:, :1])
    assert score((mean[:, :, 0], std[:, :, 0]), y[:, 0]) == one
    single = score((mean[:1], std[:1]), y)
    assert score((mean[0], std[0]), y) == single


@pytest.mark.parametrize("score", SCORES)
def test_predictions_of_models_and_regressors(score):
    random = np.random.RandomState(2)
    X = random.normal(size=(30, 2))
    y = 100 + 8 * X[:, 0] + random.normal(size=30)
    regressor = DeepKernelRegressor(n_inducing=8, max_iter=5, n_predict_samples=7, random_state=0)
    original = regressor.fit(X, y).predict_distribution(X)
    standard = [torch.as_tensor((v - v.mean(0)) / v.std(0)) for v in (X, y)]
    generator = torch.Generator().manual_seed(regressor.seed_)
    model = regressor.model_.predict(standard[0], 7, generator)
    assert isinstance(model, dw.Predictive)
    found, inner = score(original, y), score(model, standard[1])
    if score is metrics.log_likelihood:
        inner -= math.log(y.std())
    elif score is not metrics.interval_coverage:
        inner *= y.std()
    assert found == pytest.approx(inner, rel=1e-9)


def test_chunks_are_scored_in_order(mixture):
    mean, std, y = mixture

    class Chunked:
        def components(self):
            for rows in (slice(0, 4), slice(4, 6)):
                yield mean[:, rows], std[:, rows]

    for score in SCORES:
        assert score(Chunked(), y) == pytest.approx(score((mean, std), y), rel=1e-14)
    with pytest.raises(ValueError, match="y has 7 rows, but the prediction has 6"):
        metrics.rmse(Chunked(), np.concatenate([y, y[:1]]))
    with pytest.raises(ValueError, match="y has 5 rows and 2 columns, which does not fit"):
        metrics.rmse(Chunked(), y[:5])


ONE, Y = [1.0, 1.0], [1.0, 2.0]


@pytest.mark.parametrize(
    ("prediction", "y", "message"),
    [
        ((Y, ONE), [0.0], r"For y of shape \(1,\).* got \(2,\)"),
        ((Y, [0.0, 1.0]), Y, "stddev must be positive"),
        ((Y, ONE), [math.nan, 1.0], "y has NaN"),
        (([1.0, 2.0, 3.0], ONE), Y, r"got \(3,\) and \(2,\)"),
        (([1e308, -1e308], [1e308, 1e308]), [-1e308, 1e308], "too large to be scored"),
    ],
)
def test_what_cannot_be_scored(prediction, y, message):
    with pytest.raises(ValueError, match=message):
        metrics.crps(prediction, y)
