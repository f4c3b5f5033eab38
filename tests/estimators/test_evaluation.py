"""The bound with its standard error, and scores in the units of the data."""

import copy
import math

import numpy as np
import pytest
import torch

import deepwishart as dw
from deepwishart import metrics
from deepwishart.estimators import ScaledModel, estimate_elbo, score, score_constant
from deepwishart.spec import ModelSpec
from deepwishart.training import Protocol, train


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2))
    y = np.stack([100 + 10 * X[:, 0], 1e-3 * X[:, 1] ** 2], axis=1) + 1e-5 * random.normal(
        size=(40, 2)
    )
    return X, y


@pytest.fixture(scope="module")
def scaled(data):
    scaled = ScaledModel.build(ModelSpec(2, 2, num_inducing=8), *data, seed=0)
    protocol = Protocol.named("fast", 40).replace(max_iter=20)
    train(scaled.model, *scaled.standardise(*data), protocol)
    return scaled


def predict(scaled, X):
    return scaled.predict(X, 20, seed=0)


def test_scores_are_those_of_the_prediction_in_the_units_of_the_data(scaled, data):
    X, y = data
    prediction = predict(scaled, X)
    ((mean, std),) = prediction.components()
    for column, found in enumerate(score(prediction, y)):
        mixture, truth = (mean[..., column], std[..., column]), y[:, column]
        assert found["rmse"] == pytest.approx(metrics.rmse(mixture, truth), rel=1e-9)
        assert found["crps"] == pytest.approx(metrics.crps(mixture, truth), rel=1e-9)
        assert found["coverage90"] == metrics.interval_coverage(mixture, truth, 0.9)
        expected = metrics.log_likelihood(mixture, truth)
        assert found["log_likelihood"] == pytest.approx(expected, rel=1e-9)


def test_columns_of_other_likelihoods_are_scored_by_themselves(data):
    X, y = data
    noise = dw.likelihoods.StudentT(2)
    spec = ModelSpec(2, 2, num_inducing=8, likelihood=noise)
    prediction = predict(ScaledModel.build(spec, X, y), X)
    inside = np.abs(prediction.cdf(y) - 0.5) <= 0.45
    step = 1e-4 * prediction.scaling.scale
    slope = (prediction.cdf(y + step) - prediction.cdf(y - step)) / (2 * step)
    for column, found in enumerate(score(prediction, y)):
        density = np.log(slope[:, column]).mean()
        assert found["log_likelihood"] == pytest.approx(density, abs=1e-5)
        error = prediction.mean[:, column] - y[:, column]
        assert found["rmse"] == pytest.approx(math.sqrt(np.square(error).mean()), rel=1e-9)
        assert found["coverage90"] == pytest.approx(inside[:, column].mean())
        draws = prediction.sample(4000, torch.Generator().manual_seed(1))[..., column]
        apart = 0.5 * np.abs(draws - draws[::-1]).mean()
        crps = np.abs(draws - y[:, column]).mean() - apart
        assert found["crps"] == pytest.approx(crps, rel=0.03)  # 1,000 draws of 40 rows each


def test_the_constant_guess_is_the_training_rows(data):
    _, y = data
    for column, found in enumerate(score_constant(y, y)):
        truth = y[:, column]
        assert found["rmse"] == pytest.approx(truth.std(), rel=1e-9)
        expected = -math.log(truth.std()) - 0.5 * (math.log(2 * math.pi) + 1)
        assert found["log_likelihood"] == pytest.approx(expected, rel=1e-9)


def test_the_standard_error_is_that_of_repetitions(scaled, data):
    generator = torch.Generator().manual_seed(1)
    tensors = scaled.standardise(*data)
    bounds = [
        estimate_elbo(scaled.model, *tensors, num_samples=40, generator=generator)
        for _ in range(40)
    ]
    spread = np.std([bound.mean for bound in bounds], ddof=1)
    assert np.mean([bound.standard_error for bound in bounds]) == pytest.approx(spread, rel=0.35)


def test_rows_in_chunks_are_all_rows(scaled, data, monkeypatch):
    """Depth one has no Monte Carlo noise."""
    tensors = scaled.standardise(*data)
    model = dw.build("dwp", *tensors, depth=1, num_inducing=8)
    whole = estimate_elbo(model, *tensors, num_samples=1)
    monkeypatch.setattr("deepwishart.estimators.evaluation._BLOCK_ELEMENTS", 7 * 8 * 10)
    chunked = estimate_elbo(model, *tensors, num_samples=1)
    assert chunked.mean == pytest.approx(whole.mean, rel=1e-12)
    assert whole.standard_error < 1e-12


def test_predictions_that_are_no_numbers_are_refused(scaled, data):
    X, _ = data
    damaged = copy.deepcopy(scaled)
    with torch.no_grad():
        damaged.model.likelihood.log_noise.fill_(math.nan)
    with pytest.raises(FloatingPointError, match=r"row 0 of X is no finite number.*train again"):
        predict(damaged, X).mean_and_stddev()
