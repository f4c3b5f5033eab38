"""The reported numbers are what they say they are."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import deepwishart as dw
from deepwishart.reproduction.datasets import standardise
from deepwishart.reproduction.sweeps.evaluate import estimate_elbo, evaluate


@pytest.fixture
def data(dataset):
    return standardise(dataset.split(0))


def make(data, process="dwp", dtype=torch.float64):
    X, y = torch.as_tensor(data.split.X_train), torch.as_tensor(data.split.y_train)
    return dw.build(process, X, y, depth=2, num_inducing=6, dtype=dtype), X.to(dtype), y.to(dtype)


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
def test_elbo_agrees_with_one_big_sample(data, process):
    model, X, y = make(data, process)
    source = torch.Generator().manual_seed(0)
    ours = estimate_elbo(model, X, y, num_samples=1000, generator=source)
    with torch.no_grad():
        whole = dw.elbo(model, X, y, num_data=len(X), num_samples=2000, generator=source)
    assert 0 < ours.standard_error < 0.1
    assert abs(ours.mean - float(whole)) < 5 * ours.standard_error


def test_standard_error_is_the_spread_of_estimates(data):
    model, X, y = make(data)
    source = torch.Generator().manual_seed(1)
    bounds = [estimate_elbo(model, X, y, num_samples=100, generator=source) for _ in range(40)]
    spread = np.std([bound.mean for bound in bounds], ddof=1)
    typical = np.mean([bound.standard_error for bound in bounds])
    assert typical == pytest.approx(spread, rel=0.4)


def test_elbo_does_not_depend_on_how_rows_are_cut(data, monkeypatch):
    model, X, y = make(data)
    source = torch.Generator().manual_seed(2)
    whole = estimate_elbo(model, X, y, num_samples=1000, generator=source)
    monkeypatch.setattr("deepwishart.reproduction.sweeps.evaluate._BLOCK_ELEMENTS", 60 * 7)
    cut = estimate_elbo(model, X, y, num_samples=500, generator=source)
    tolerance = 5 * math.hypot(whole.standard_error, cut.standard_error)
    assert abs(whole.mean - cut.mean) < tolerance


def test_test_numbers_are_in_original_units(dataset, data):
    """Each number from the mixture's components in original units, with SciPy."""
    model, _, _ = make(data)
    numbers = evaluate(model, data, elbo_samples=20, test_samples=50, seed=3)
    source = torch.Generator().manual_seed(3)
    X, y = (torch.as_tensor(part) for part in data.split[:2])
    estimate_elbo(model, X, y, num_samples=20, generator=source)
    prediction = model.predict(torch.as_tensor(data.split.X_test), 50, source)
    mean, std = (torch.cat(parts, 1) for parts in zip(*prediction.components(), strict=True))
    mean = data.y_mean + data.y_std * mean[..., 0].numpy()
    std = data.y_std * std[..., 0].numpy()
    y_test = dataset.split(0).y_test

    density = stats.norm.pdf(y_test, mean, std).mean(0)
    assert numbers["test_log_likelihood"] == pytest.approx(np.log(density).mean(), rel=1e-10)
    errors = mean.mean(0) - y_test
    assert numbers["rmse"] == pytest.approx(np.sqrt(np.square(errors).mean()), rel=1e-10)
    reached = stats.norm.cdf(y_test, mean, std).mean(0)
    assert numbers["coverage90"] == np.mean((reached >= 0.05) & (reached <= 0.95))
    assert 0.0 < numbers["crps"] < np.abs(errors).mean() + std.mean()


def test_single_precision(data):
    model, _, _ = make(data, dtype=torch.float32)
    numbers = evaluate(model, data, elbo_samples=20, test_samples=5)
    assert all(math.isfinite(value) for value in numbers.values())
