"""The predictive mixture and joint function samples."""

import pickle

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Normal

import deepwishart as dw
from deepwishart import posterior as posterior_module
from deepwishart import predict as predict_module
from deepwishart.likelihoods import Bernoulli, Categorical, Mixture

OUTPUTS = ["inducing", "collapsed"]
PROCESSES = ["dwp", "dgp", "dsvi", "diwp"]


def model_and_data(process="dwp", outputs=1, depth=3, output="inducing"):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(25, 2, generator=generator, dtype=torch.float64)
    y = torch.randn(25, outputs, generator=generator, dtype=torch.float64)
    return dw.build(process, X, y, depth=depth, num_inducing=6, output=output), X, y


def normal(shape):
    return torch.randn(shape, generator=seeded(3), dtype=torch.float64)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def numpy_mixture(predictive):
    parts = list(predictive.components())
    means = torch.cat([m for m, _ in parts], dim=1).numpy()
    stds = torch.cat([s for _, s in parts], dim=1).numpy()
    return means, stds


def test_moments_density_and_distribution_function_are_those_of_the_mixture():
    model, X, y = model_and_data()
    predictive = model.predict(X, num_samples=20, generator=seeded())
    means, stds = numpy_mixture(predictive)
    assert means.shape == (20, 25, 1)
    np.testing.assert_allclose(predictive.mean, means.mean(0)[:, 0])
    second = (stds**2 + means**2).mean(0)[:, 0]
    np.testing.assert_allclose(predictive.stddev**2, second - means.mean(0)[:, 0] ** 2)
    density = stats.norm.pdf(y.numpy(), means, stds).mean(0)[:, 0]
    np.testing.assert_allclose(predictive.log_prob(y), np.log(density))
    np.testing.assert_allclose(predictive.log_prob(y[:, 0]), np.log(density))
    below = stats.norm.cdf(y.numpy(), means, stds).mean(0)[:, 0]
    np.testing.assert_allclose(predictive.cdf(y), below)


@pytest.mark.parametrize("level", [1e-6, 0.05, 0.5, 0.975])
def test_quantile_inverts_the_distribution_function(level):
    model, X, _ = model_and_data()
    predictive = model.predict(X, num_samples=20, generator=seeded())
    quantile = predictive.quantile(level)
    assert quantile.shape == (25,)
    np.testing.assert_allclose(predictive.cdf(quantile), level, rtol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["64", "32"])
@pytest.mark.parametrize("level", [1e-5, 0.2, 0.7, 1 - 1e-5])
def test_quantiles_of_mixtures_that_are_far_from_gaussian(dtype, level):
    """Narrow peaks far apart, between which there is no density, and a wide one around them."""
    mean = torch.tensor([-10.0, 0.0, 0.1, 5.0, 0.0], dtype=dtype).reshape(-1, 1, 1, 1)
    stddev = torch.tensor([1e-2, 1e-3, 1.0, 0.1, 100.0], dtype=dtype).reshape(-1, 1, 1, 1)
    weights = torch.tensor([0.3, 0.3, 0.1, 0.299, 0.001], dtype=dtype)
    mixture = Mixture(Normal(mean, stddev), weights.log())
    probability = torch.tensor(level, dtype=dtype)
    found = predict_module._quantile(mixture, probability)
    below = predict_module._cdf(mixture, found)
    assert float((below - probability).abs()) < 3e3 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["64", "32"])
@pytest.mark.parametrize("stddev", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("level", [1e-3, 0.025, 0.3, 0.49, 0.51, 0.975])
def test_quantiles_of_narrow_components_far_apart(dtype, stddev, level):
    """Two equal peaks: the lower has the levels below a half to itself. A row of one peak shares
    the block with them, and has to be left alone when it is done."""
    mean = torch.tensor([[-0.5, 0.2], [0.5, 0.2]], dtype=dtype).reshape(1, 2, 2, 1)
    mixture = Mixture(Normal(mean, torch.full_like(mean, stddev)), torch.zeros(1, dtype=dtype))
    calls = []
    mixture.components.cdf = lambda y: calls.append(y) or Normal.cdf(mixture.components, y)
    found = predict_module._quantile(mixture, torch.tensor(level, dtype=dtype)).squeeze(-1)
    peak, share = (-0.5, 2 * level) if level < 0.5 else (0.5, 2 * level - 1)
    expected = [peak + stddev * stats.norm.ppf(share), 0.2 + stddev * stats.norm.ppf(level)]
    near = 4e3 * torch.finfo(dtype).eps
    np.testing.assert_allclose(found, expected, rtol=0, atol=near * (stddev + 1e-3))
    assert len(calls) <= 60


def test_several_quantiles_and_columns():
    model, X, y = model_and_data(outputs=3)
    predictive = model.predict(X, num_samples=5, generator=seeded())
    quantiles = predictive.quantile(torch.tensor([0.1, 0.9]))
    assert quantiles.shape == (2, 25, 3)
    assert bool((quantiles[0] < quantiles[1]).all())
    assert predictive.mean.shape == (25, 3)
    assert predictive.log_prob(y).shape == (25,)
    assert predictive.sample(7, seeded()).shape == (7, 25, 3)


def test_samples_follow_the_mixture():
    model, X, _ = model_and_data()
    predictive = model.predict(X[:2], num_samples=10, generator=seeded())
    drawn = predictive.sample(4000, seeded(1))
    uniform = torch.stack([predictive.cdf(row) for row in drawn])
    for row in range(2):
        assert stats.kstest(uniform[:, row].numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_row_does_not_depend_on_its_neighbours(process, output):
    model, X, _ = model_and_data(process, output=output)
    whole = model.predict(X, num_samples=7, generator=seeded())
    some = model.predict(X[[3, 20]], num_samples=7, generator=seeded())
    torch.testing.assert_close(whole.mean[[3, 20]], some.mean, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(whole.stddev[[3, 20]], some.stddev, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_streaming_over_chunks_changes_nothing(process, output, monkeypatch):
    model, X, y = model_and_data(process, output=output)
    kept = model.predict(X, num_samples=7, generator=seeded())
    monkeypatch.setattr(posterior_module, "_BLOCK_ELEMENTS", 7 * 6 * 4)
    monkeypatch.setattr(predict_module, "_KEEP_ELEMENTS", 0)
    streamed = model.predict(X, num_samples=7, generator=seeded())
    assert len(list(streamed.components())) > 5
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)  # later training must not change an answer already given
    for question in ("mean", "stddev"):
        first, second = getattr(kept, question), getattr(streamed, question)
        torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(kept.log_prob(y), streamed.log_prob(y), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(kept.quantile(0.3), streamed.quantile(0.3), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_joint_functions_have_the_marginals_of_the_prediction(process, output):
    model, X, _ = model_and_data(process, depth=2, output=output)
    samples = model.sample_functions(X[:3], num_samples=3000, generator=seeded(1))
    assert samples.functions.shape == (3000, 3, 1)
    assert samples.layers[0].shape[:2] == (3000, 3)
    predictive = model.predict(X[:3], num_samples=3000, generator=seeded(2))
    for row in range(3):
        parts = [m + v.sqrt() * normal(m.shape) for m, v in predictive.latents()]
        drawn = torch.cat(parts, dim=1)[:, row, 0]
        result = stats.ks_2samp(samples.functions[:, row, 0].numpy(), drawn.numpy())
        assert result.pvalue > 1e-3


def test_joint_functions_are_smooth_where_independent_rows_are_not():
    model, _, _ = model_and_data(depth=2)
    line = torch.zeros(40, 2, dtype=torch.float64)
    line[:, 0] = torch.linspace(5.0, 5.1, 40)  # close together, far from the data
    functions = model.sample_functions(line, num_samples=50, generator=seeded()).functions
    steps = (functions[:, 1:] - functions[:, :-1]).abs().mean()
    assert steps < 0.05 * functions.std(0).mean()


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_predictions_can_be_pickled(process, output, monkeypatch):
    model, X, y = model_and_data(process, output=output)
    kept = model.predict(X, num_samples=3, generator=seeded())
    monkeypatch.setattr(predict_module, "_KEEP_ELEMENTS", 0)
    streamed = model.predict(X, num_samples=3, generator=seeded())
    for predictive in (kept, streamed):
        copied = pickle.loads(pickle.dumps(predictive))
        assert torch.equal(copied.log_prob(y), predictive.log_prob(y))
        assert torch.equal(copied.quantile(0.3), predictive.quantile(0.3))


def test_what_cannot_be_predicted_is_refused():
    model, X, y = model_and_data()
    prediction = model.predict(X, num_samples=np.int64(2))
    without_rows, _, _ = model_and_data(output="collapsed")
    without_rows.training_inputs = without_rows.training_targets = None
    for call, message in (
        (lambda: without_rows.predict(X), "predicts from its training rows and has none"),
        (lambda: model.predict(X[:0]), "X has no rows"),
        (lambda: model.predict(X, num_samples=0), "num_samples"),
        (lambda: prediction.quantile(1.0), "between 0 and 1"),
        (lambda: prediction.log_prob(y[:3]), "25 rows and 1 columns"),
        (lambda: model.predict(X * torch.nan), "X has NaN"),
        (lambda: model.predict(X, generator=0), "generator must be a torch.Generator"),
        (lambda: model.predict(X.to_sparse()), "X must be an ordinary tensor"),
        (lambda: prediction.log_prob(y * torch.nan), "y has NaN"),
        (lambda: prediction.quantile([]), "p must be one or several probabilities"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# ---- classes ----------------------------------------------------------------------------------

LINE = torch.linspace(-2, 2, 12, dtype=torch.float64)[:, None]
Y = ((LINE > -0.7).double() + (LINE > 0.9).double()).squeeze(-1)


def predict_classes(likelihood, targets, num_samples=6):
    options = {"num_inducing": 6, "likelihood": likelihood, "depth": 2}
    model = dw.build("dwp", LINE, targets, **options)
    return model.predict(LINE, num_samples, seeded())


@pytest.fixture(scope="module", params=["probit", "softmax"])
def prediction(request):
    if request.param == "softmax":
        return predict_classes(Categorical(3), Y)
    return predict_classes(Bernoulli(), (Y > 0).double())


def test_probabilities_are_those_of_labels(prediction):
    classes = prediction.probs.shape[1]
    torch.testing.assert_close(prediction.probs.sum(1), torch.ones(12, dtype=torch.float64))
    for label in range(classes):
        at = prediction.log_prob(torch.full((12,), float(label)))
        torch.testing.assert_close(at, prediction.log_probs[:, label])


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
    gaussian = dw.build("dwp", LINE, Y, num_inducing=6).predict(LINE)
    with pytest.raises(TypeError, match="Targets under Gaussian are no classes"):
        _ = gaussian.probs


def test_several_columns_of_classes():
    both = torch.stack([(Y > 0).double(), (Y > 1).double()], dim=1)
    prediction = predict_classes(Bernoulli(2), both)
    assert prediction.probs.shape == (12, 2, 2)
    torch.testing.assert_close(prediction.probs[..., 1], prediction.mean)
