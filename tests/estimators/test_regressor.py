"""The regressor: predictions, training, and its life inside scikit-learn."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import deepwishart as dw
from deepwishart.spec import PROCESSES


@pytest.fixture(scope="module")
def fitted(make, data):
    return make(max_iter=30).fit(*data)


# ---- predictions --------------------------------------------------------------------------------


@pytest.mark.parametrize("process", PROCESSES)
def test_every_process_learns(process, make, data):
    X, y = data
    regressor = make(process, max_iter=60).fit(X[:50], y[:50])
    assert regressor.score(X[50:], y[50:]) > 0.9
    assert regressor.log_prob(X[50:], y[50:]).mean() > -math.log(y.std() * 4)


def test_predictions_are_repeatable_and_seeded(make, data, fitted):
    X, y = data
    np.testing.assert_array_equal(fitted.predict(X), fitted.predict(X))
    again = make(max_iter=30).fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X), again.predict(X))
    assert again.elbo_ == fitted.elbo_
    other = make(max_iter=30, random_state=1).fit(X, y)
    assert np.abs(other.predict(X) - fitted.predict(X)).max() > 1e-6


def test_intervals_are_quantiles_and_quantiles_invert_the_distribution(data, fitted):
    X, _ = data
    lower, upper = fitted.predict_interval(X, coverage=0.5)
    quantiles = fitted.predict_quantiles(X, [0.25, 0.5, 0.75])
    assert quantiles.shape == (60, 3)
    np.testing.assert_array_equal(quantiles[:, 0], lower)
    np.testing.assert_array_equal(quantiles[:, 2], upper)
    np.testing.assert_array_equal(fitted.predict_quantiles(X, 0.5), quantiles[:, 1])
    cdf = fitted.predict_distribution(X).cdf(upper)
    np.testing.assert_allclose(cdf, 0.75, atol=1e-10)
    for coverage in (0.0, 1.0, 90):
        with pytest.raises(ValueError, match="coverage must be strictly between 0 and 1"):
            fitted.predict_interval(X, coverage)


def test_samples_have_the_moments_of_the_prediction_and_repeat(data, fitted):
    X = data[0][:3]
    samples = fitted.sample_y(X, 20_000, random_state=3)
    assert samples.shape == (3, 20_000)
    mean, std = fitted.predict(X, return_std=True)
    assert (np.abs(samples.mean(1) - mean) < 4 * std / math.sqrt(20_000)).all()
    np.testing.assert_allclose(samples.std(1), std, rtol=0.03)
    np.testing.assert_array_equal(fitted.sample_y(X, 2), fitted.sample_y(X, 2))
    np.testing.assert_array_equal(samples, fitted.sample_y(X, 20_000, random_state=3))
    assert (fitted.sample_y(X, 2, random_state=1) != fitted.sample_y(X, 2)).all()


def test_sampling_noise_is_not_the_noise_of_the_posterior(make, data):
    """The same seed for fit and for samples: their streams must still differ."""
    X, y = data
    regressor = make(random_state=5, n_predict_samples=1).fit(X, y)
    mean, std = regressor.predict(X, return_std=True)
    noise = [(regressor.sample_y(X, 1, seed)[:, 0] - mean) / std for seed in (None, 5)]
    for draw in noise:
        stream = torch.Generator().manual_seed(regressor.seed_)
        repeated = torch.randn(60, generator=stream, dtype=torch.float64).numpy()
        assert abs(np.corrcoef(draw, repeated)[0, 1]) < 0.5


def test_units_of_the_data_are_units_of_the_answer(make, data):
    """Powers of two standardise to the same numbers, so every answer must scale exactly."""
    X, y = data
    plain = make().fit(X, y)
    scaled = make().fit(X * 2.0**-9, y * 2.0**20)
    shrunk = X * 2.0**-9
    for ours, theirs in zip(
        plain.predict(X, return_std=True), scaled.predict(shrunk, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(ours * 2.0**20, theirs)
    np.testing.assert_allclose(
        scaled.log_prob(shrunk, y * 2.0**20), plain.log_prob(X, y) - 20 * math.log(2), rtol=1e-12
    )
    assert scaled.elbo_ == plain.elbo_


def test_several_target_columns(make, data):
    X, y = data
    Y = np.column_stack([y, 1e3 * X[:, 0] - 7, np.cos(X[:, 1])])
    regressor = make(max_iter=40).fit(X, Y)
    mean, std = regressor.predict(X, return_std=True)
    assert mean.shape == std.shape == (60, 3) and regressor.n_outputs_ == 3
    assert regressor.score(X, Y) > 0.9
    assert (std[:, 1] > 10 * std[:, 2]).all()
    assert regressor.predict_quantiles(X, [0.1, 0.9]).shape == (60, 3, 2)
    assert regressor.predict_interval(X)[0].shape == (60, 3)
    assert regressor.sample_y(X, 4).shape == (60, 3, 4)
    assert regressor.log_prob(X, Y).shape == (60,)
    table, vector = make().fit(X, y[:, None]), make().fit(X, y)
    assert table.predict(X).shape == (60, 1)
    np.testing.assert_array_equal(table.predict(X)[:, 0], vector.predict(X))
    np.testing.assert_array_equal(table.log_prob(X, y), vector.log_prob(X, y[:, None]))
    with pytest.raises(ValueError, match=r"y must have 60 rows and 1 columns, got \(3,\)"):
        vector.log_prob(X, y[:3])


# ---- what fit leaves behind ---------------------------------------------------------------------


def test_elbo_is_that_of_the_trained_model_per_point(make, data):
    """Depth one needs no sampling: the bound can be computed outside."""
    X, y = data
    regressor = make(depth=1, max_iter=30).fit(X, y)
    standard = [torch.as_tensor((v - v.mean(0)) / v.std(0)) for v in (X, y)]
    expected = dw.elbo(regressor.model_, *standard, num_data=60, num_samples=1)
    assert regressor.elbo_ == pytest.approx(expected.item(), rel=1e-9)


# ---- data frames --------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames(frame, make, data):
    X, y = data
    mixed = {
        "size": X[:, 0],
        "rooms": np.arange(60) % 4,
        "garden": X[:, 1] > 0,
        "age": X[:, 1].astype(np.float32),
    }
    table = frame(mixed)
    regressor = make().fit(table, frame({"price": y}))
    assert make().fit(X, table["size"]).predict(X).shape == (60,)  # a series
    assert list(regressor.feature_names_in_) == list(mixed)
    plain = make().fit(np.column_stack([v.astype(float) for v in mixed.values()]), y)
    np.testing.assert_array_equal(regressor.predict(table)[:, 0], plain.predict(table.to_numpy()))
