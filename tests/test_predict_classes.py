"""Predicted classes: probabilities of the mixture, against simulation through the likelihood."""

import numpy as np
import pytest
import torch

import deepwishart as dw
from deepwishart.estimators import ClassPredictive
from deepwishart.likelihoods import Bernoulli, Categorical

X = torch.linspace(-2, 2, 12, dtype=torch.float64)[:, None]
Y = ((X > -0.7).double() + (X > 0.9).double()).squeeze(-1)


def predict(likelihood, targets, num_samples=6):
    options = {"num_inducing": 6, "likelihood": likelihood, "depth": 2}
    model = dw.build("dwp", X, targets, **options)
    return model.predict(X, num_samples, torch.Generator().manual_seed(0))


@pytest.fixture(scope="module", params=["probit", "softmax"])
def prediction(request):
    if request.param == "softmax":
        return predict(Categorical(3), Y)
    return predict(Bernoulli(), (Y > 0).double())


def test_probabilities_are_those_of_labels(prediction):
    classes = prediction.probs.shape[1]
    torch.testing.assert_close(prediction.probs.sum(1), torch.ones(12, dtype=torch.float64))
    for label in range(classes):
        at = prediction.log_prob(torch.full((12,), float(label)))
        torch.testing.assert_close(at, prediction.log_probs[:, label])


def test_probabilities_against_simulation(prediction):
    """Posterior sample, latent, class: 30,000 draws by hand."""
    generator = torch.Generator().manual_seed(1)
    (mean, variance), draws = next(iter(prediction.latents())), 30_000
    which = torch.randint(len(mean), (draws,), generator=generator)
    noise = torch.randn(draws, *mean.shape[1:], generator=generator, dtype=torch.float64)
    latents = mean[which] + variance[which].sqrt() * noise
    with torch.random.fork_rng():
        torch.manual_seed(2)
        labels = prediction.likelihood.distribution(latents).sample().squeeze(-1)
    drawn = prediction.sample(draws, generator)
    for label in range(prediction.probs.shape[1]):
        probability = prediction.probs[:, label]
        error = (probability * (1 - probability) / draws).sqrt()
        for found in (labels, drawn):
            frequency = (found == label).double().mean(0)
            assert ((frequency - probability).abs() < 4 * error + 5e-3).all()


def test_the_mixture_stays_a_mixture(prediction):
    """Probabilities are averaged over posterior samples, not latents: a draw of all rows comes
    from one of them, so rows are correlated."""
    (mean, variance), likelihood = next(iter(prediction.latents())), prediction.likelihood
    laws = [likelihood.predictive(m, v) for m, v in zip(mean, variance, strict=True)]
    each = [torch.tensordot(law[1].exp(), law[0].probs, dims=1) for law in laws]
    average = torch.stack(each).mean(0)
    found = prediction.probs[:, 1:] if average.shape[-1] == 1 else prediction.probs
    torch.testing.assert_close(found, average.squeeze(-2) if average.ndim == 3 else average)
    assert (torch.stack(each).std(0) > 1e-3).any()


def test_targets_that_are_no_classes():
    gaussian = dw.build("dwp", X, Y, num_inducing=6).predict(X)
    with pytest.raises(TypeError, match="Targets under Gaussian are no classes"):
        _ = gaussian.probs


def test_several_columns_of_classes():
    both = torch.stack([(Y > 0).double(), (Y > 1).double()], dim=1)
    prediction = predict(Bernoulli(2), both)
    assert prediction.probs.shape == (12, 2, 2)
    torch.testing.assert_close(prediction.probs[..., 1], prediction.mean)


def test_labels():
    classes = np.array(["high", "low", "mid"])
    prediction = ClassPredictive(predict(Categorical(3), Y), classes)
    assert len(prediction) == 12 and prediction.num_samples == 6
    np.testing.assert_allclose(prediction.probs.sum(1), 1.0, rtol=1e-14)
    assert (prediction.mode == classes[prediction.probs.argmax(1)]).all()
    at = prediction.log_prob(["mid"] * 12)
    np.testing.assert_array_equal(at, prediction.log_probs[:, 2])
    assert set(prediction.sample(5, torch.Generator().manual_seed(0)).ravel()) <= set(classes)
    with pytest.raises(ValueError, match="y holds 'middle', which is none of the 3 classes"):
        prediction.log_prob(["middle"] * 12)
    with pytest.raises(ValueError, match=r"y must be 12 labels, got shape \(3,\)"):
        prediction.log_prob(classes)
