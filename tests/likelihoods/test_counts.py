"""Counts: their distribution against SciPy's, and the likelihoods made of it."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import deepwishart as dw
from deepwishart.likelihoods import NegativeBinomial, Poisson
from deepwishart.likelihoods.counts import Counts


@pytest.mark.parametrize("mean", [1e-3, 0.3, 5.0, 80.0, 1e4])
@pytest.mark.parametrize("dispersion", [0.0, 1e-6, 1e-3, 0.099, 0.101, 3.0])
def test_distribution_is_scipys(mean, dispersion):
    spread = (mean + dispersion * mean**2) ** 0.5
    y = np.unique(np.clip(np.round(mean + spread * np.linspace(-5, 8, 60)), 0, None))
    law = stats.poisson(mean)
    if dispersion:
        law = stats.nbinom(1 / dispersion, 1 / (1 + dispersion * mean))
    for dtype, tolerance in ((torch.float64, 1e-7), (torch.float32, 1e-5)):
        found = Counts(*torch.tensor([np.log(mean), dispersion], dtype=dtype).unbind())
        values = torch.tensor(y, dtype=dtype)
        size = 1.0 + np.abs(y * np.log(mean)) + y + np.abs(law.logpmf(y))
        error = np.abs(found.log_prob(values).double().numpy() - law.logpmf(y)) / size
        assert error.max() < tolerance
        below = np.abs(found.cdf(values).double().numpy() - law.cdf(y)).max()
        assert below < (1e-4 if dtype == torch.float64 else 1e-2)
    assert float(found.cdf(torch.tensor(-1.0))) == 0.0


def test_steps_from_count_to_count():
    law = Counts(torch.tensor(1.3), torch.tensor(0.4))
    for count in (0, 1, 7):
        ratio = law.log_prob(torch.tensor(count + 1.0)) - law.log_prob(torch.tensor(float(count)))
        torch.testing.assert_close(law.ratio(count), ratio.exp(), rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("likelihood", "y", "law"),
    [
        *((Poisson(1), y, stats.poisson) for y in (0.0, 3.0, 40.0)),
        (
            NegativeBinomial(1, dispersion=0.7),
            3.0,
            lambda rate: stats.nbinom(1 / 0.7, 1 / (1 + 0.7 * rate)),
        ),
    ],
)
def test_expectation_is_scipys_density_integrated(likelihood, y, law):
    m, v = 1.2, 0.4
    found = likelihood.expected_log_prob(*(torch.full((1, 1), each).double() for each in (y, m, v)))
    expected, _ = integrate.quad(
        lambda f: stats.norm.pdf(f, m, v**0.5) * law(np.exp(f)).logpmf(y), m - 7, m + 7
    )
    assert float(found.detach()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", [Poisson, NegativeBinomial])
def test_an_exposure_shifts_the_rate(kind):
    plain, exposed = kind(1), kind(1, exposure=True)
    y, mean, variance = (torch.full((3, 1), each).double() for each in (4.0, 0.2, 0.1))
    known = torch.cat([y, torch.full_like(y, 1.5)], dim=1)
    torch.testing.assert_close(
        exposed.expected_log_prob(known, mean, variance),
        plain.expected_log_prob(y, mean + 1.5, variance),
    )
    exposed.start_from(torch.tensor([[6.0, 0.0], [14.0, np.log(3.0)]]))
    assert float(exposed.log_rate.detach().exp()) == pytest.approx(20.5 / 4)
    assert exposed.initial_latents(known).shape == (3, 1)


@pytest.fixture(scope="module", params=[(Poisson, 3.0), (NegativeBinomial, 400.0)])
def prediction(request):
    """Predictions of small and of large counts, from a model that has not been trained."""
    kind, rate = request.param
    generator = torch.Generator().manual_seed(0)
    X = 4 * torch.rand(30, 2, generator=generator, dtype=torch.float64) - 2
    y = torch.round(rate * X[:, :1].sin().exp())
    model = dw.build("dwp", X, y, num_inducing=8, likelihood=kind(1))
    return model.predict(X[:6], 20, generator), y[:6]


def test_quantiles_are_the_first_counts_that_reach_a_level(prediction):
    prediction, _ = prediction
    for level in (1e-4, 0.05, 0.5, 0.95):
        found = prediction.quantile(level)
        assert bool((found == found.round()).all() and (found >= 0).all())
        assert bool((prediction.cdf(found) >= level - 1e-9).all())
        assert bool((prediction.cdf(found - 1) < level + 1e-9).all())


def test_predictive_is_what_simulation_gives(prediction):
    prediction, y = prediction
    drawn = prediction.sample(20_000, torch.Generator().manual_seed(1))
    torch.testing.assert_close(drawn.mean(0), prediction.mean, rtol=0.04, atol=0)
    torch.testing.assert_close(drawn.std(0), prediction.stddev, rtol=0.15, atol=0)
    for value in (y[:, 0], prediction.quantile(0.9)):
        below = (drawn <= value).double().mean(0)
        assert float((below - prediction.cdf(value)).abs().max()) < 0.02
    if float(y.max()) < 30:
        share = (drawn == y[:, 0]).double().mean(0)
        assert float((share - prediction.log_prob(y).exp()).abs().max()) < 0.015
