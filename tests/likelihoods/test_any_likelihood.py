"""Whatever fulfils the contract trains, predicts, saves and loads."""

import pytest
import torch
from torch import nn

import deepwishart as dw
from deepwishart.likelihoods import HeteroscedasticGaussian, Likelihood
from deepwishart.predict import draw_targets


class HeavyTails(Likelihood):
    def __init__(self, num_outputs=1):
        super().__init__(num_outputs)
        self.log_scale = nn.Parameter(torch.full((num_outputs,), -0.5))

    def distribution(self, latents):
        return torch.distributions.StudentT(4.0, latents, self.log_scale.exp())


class TwoClasses(Likelihood):
    def distribution(self, latents):
        return torch.distributions.Bernoulli(logits=latents)


class Counts(Likelihood):
    def distribution(self, latents):
        return torch.distributions.Poisson(latents.exp())

    def initial_latents(self, y):
        return (y + 0.5).log()


class Durations(Likelihood):
    """A distribution function without an inverse, on the positive numbers."""

    def distribution(self, latents):
        return torch.distributions.Gamma(2.0, (-latents).exp())


EXAMPLES = pytest.mark.parametrize(
    "example", [HeavyTails, TwoClasses, Counts, HeteroscedasticGaussian]
)
ROWS = 40


def data(likelihood, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    X = 4 * torch.rand(ROWS, 2, generator=generator, dtype=torch.float64) - 2
    latents = (2 * X[:, :1]).sin().expand(-1, likelihood.num_latents).to(dtype)
    return X.to(dtype), draw_targets(likelihood.to(dtype), latents, seed=1)


def fit(model, X, y, steps):
    """The bound before and after a few steps, with the same noise."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    bounds = []
    for _ in range(steps + 1):
        generator = torch.Generator().manual_seed(2)
        bound = dw.elbo(model, X, y, num_data=len(X), num_samples=5, generator=generator)
        bounds.append(float(bound.detach()))
        optimiser.zero_grad()
        (-bound).backward()
        optimiser.step()
    return bounds[0], bounds[-1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["64", "32"])
@pytest.mark.parametrize("process", ["dwp", "dsvi"])
@pytest.mark.parametrize("num_outputs", [1, 2])
@EXAMPLES
def test_trains_and_predicts(example, process, num_outputs, dtype):
    likelihood = example(num_outputs)
    X, y = data(likelihood, dtype)
    model = dw.build(process, X, y, num_inducing=8, likelihood=likelihood, dtype=dtype)
    before, after = fit(model, X, y, steps=15)
    assert after > before + 0.01
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name

    generator = torch.Generator().manual_seed(3)
    prediction = model.predict(X[:7], num_samples=20, generator=generator)
    shape = (7,) if num_outputs == 1 else (7, num_outputs)
    assert prediction.mean.shape == prediction.variance.shape == shape
    assert prediction.log_prob(y[:7]).shape == (7,)
    drawn = prediction.sample(4000, generator=generator)
    assert drawn.shape == (4000, *shape) and drawn.dtype == dtype
    z = (drawn.mean(0) - prediction.mean) / (prediction.stddev / 4000**0.5)
    assert float(z.abs().max()) < 5.0
    assert bool(prediction.log_prob(y[:7]).isfinite().all())


@EXAMPLES
def test_state_dict_round_trip(example):
    likelihood = example(1)
    X, y = data(likelihood)
    model = dw.build("dwp", X, y, num_inducing=8, likelihood=likelihood)
    fit(model, X, y, steps=2)
    other = dw.build("dwp", X, y, num_inducing=8, likelihood=example(1), seed=5)
    other.load_state_dict(model.state_dict())
    first, second = (
        m.predict(X, num_samples=10, generator=torch.Generator().manual_seed(4))
        for m in (model, other)
    )
    assert torch.equal(first.mean, second.mean)
    assert torch.equal(first.log_prob(y), second.log_prob(y))


@EXAMPLES
def test_importance_weighted_bound_is_above_the_elbo(example):
    likelihood = example(1)
    X, y = data(likelihood)
    X, y = X[:10], y[:10]
    model = dw.build("dwp", X, y, num_inducing=10, likelihood=likelihood)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        bound = dw.elbo(model, X, y, num_data=10, num_samples=500, generator=generator)
        better = dw.importance_weighted_bound(
            model, X, y, num_importance=100, num_replicates=20, generator=generator
        )
    assert float(better.mean()) > float(bound)


def predicted(kind):
    """Of rows, under a model that has not been trained."""
    likelihood = kind(1)
    X, y = data(likelihood)
    return dw.build("dwp", X, y, num_inducing=8, likelihood=likelihood).predict(X[:5]), X[:5]


@pytest.mark.parametrize("example", [HeavyTails, TwoClasses, Counts])
def test_without_a_distribution_function_there_are_no_quantiles(example):
    with pytest.raises(TypeError, match="no distribution function, and so no quantiles"):
        predicted(example)[0].quantile(0.5)


@pytest.mark.parametrize("example", [Durations, HeteroscedasticGaussian])
def test_quantiles_are_found_in_the_distribution_function(example):
    prediction, _ = predicted(example)
    levels = torch.tensor([0.01, 0.5, 0.99], dtype=torch.float64)
    for level, quantile in zip(levels, prediction.quantile(levels), strict=True):
        assert example is not Durations or bool((quantile > 0).all())
        torch.testing.assert_close(prediction.cdf(quantile), level.expand(5), rtol=0, atol=1e-9)


def test_predictions_of_classes_are_probabilities():
    prediction, X = predicted(TwoClasses)
    one, zero = (prediction.log_prob(make(len(X))).exp() for make in (torch.ones, torch.zeros))
    torch.testing.assert_close(one, prediction.mean)
    torch.testing.assert_close(one + zero, torch.ones_like(one))
    with pytest.raises(TypeError, match="Under TwoClasses, components are not Gaussian"):
        next(prediction.components())
