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


ROWS = 40


def data(likelihood, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    X = 4 * torch.rand(ROWS, 2, generator=generator, dtype=torch.float64) - 2
    latents = (2 * X[:, :1]).sin().expand(-1, likelihood.num_latents).to(dtype)
    return X.to(dtype), draw_targets(likelihood.to(dtype), latents, seed=1)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("example", "num_outputs", "process", "dtype"),
    [
        (HeavyTails, 1, "dwp", torch.float64),
        (HeavyTails, 2, "dsvi", torch.float32),
        (TwoClasses, 1, "dsvi", torch.float64),
        (TwoClasses, 2, "dwp", torch.float32),
        (Counts, 1, "dwp", torch.float32),
        (HeteroscedasticGaussian, 2, "dwp", torch.float64),
        (HeteroscedasticGaussian, 1, "dsvi", torch.float32),
    ],
)
def test_trains_predicts_and_loads(example, num_outputs, process, dtype):
    likelihood = example(num_outputs)
    X, y = data(likelihood, dtype)
    options = {"num_inducing": 8, "dtype": dtype}
    model = dw.build(process, X, y, likelihood=likelihood, **options)
    optimiser, bounds = torch.optim.Adam(model.parameters(), lr=0.02), []
    for _ in range(16):
        bound = dw.elbo(model, X, y, num_data=ROWS, num_samples=5, generator=seeded(2))
        bounds.append(float(bound.detach()))
        optimiser.zero_grad()
        (-bound).backward()
        optimiser.step()
    assert bounds[-1] > bounds[0] + 0.01
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name

    prediction = model.predict(X[:7], num_samples=20, generator=seeded(3))
    shape = (7,) if num_outputs == 1 else (7, num_outputs)
    assert prediction.mean.shape == prediction.variance.shape == shape
    assert bool(prediction.log_prob(y[:7]).isfinite().all())
    drawn = prediction.sample(4000, generator=seeded(4))
    assert drawn.shape == (4000, *shape) and drawn.dtype == dtype
    z = (drawn.mean(0) - prediction.mean) / (prediction.stddev / 4000**0.5)
    assert float(z.abs().max()) < 5.0

    other = dw.build(process, X, y, likelihood=example(num_outputs), seed=5, **options)
    other.load_state_dict(model.state_dict())
    again = other.predict(X[:7], num_samples=20, generator=seeded(3))
    assert torch.equal(again.log_prob(y[:7]), prediction.log_prob(y[:7]))


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
