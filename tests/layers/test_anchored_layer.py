"""The anchored posterior as a layer: its ratio, its gradient, its start, and models made of it."""

import pytest
import torch

import deepwishart as dw
from deepwishart.layers import AnchoredLayer
from deepwishart.numerics import linalg
from deepwishart.random import Randomness
from deepwishart.testing import check_layer

POINTS = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
WIDTHS = [1, 3, 5, 8]


def layer(width: int, **options) -> AnchoredLayer:
    dtype = options.get("dtype", torch.float64)
    kernel = dw.kernels.make("squared_exponential", dtype=dtype)
    made = AnchoredLayer(kernel, width, 5, **options)
    generator = torch.Generator().manual_seed(width)
    features = torch.randn(5, width, generator=generator, dtype=torch.float64) / width**0.5
    made.start_from(POINTS.to(dtype), features.to(dtype), noise=0.5)
    return made


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fulfils_the_contract(width, dtype):
    check_layer(layer(width, dtype=dtype), POINTS.to(dtype))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_ratio_is_that_of_the_two_densities(width, shared):
    made, inputs = layer(width), POINTS
    if not shared:
        generator = torch.Generator().manual_seed(3)
        inputs = torch.randn(6, 5, 3, generator=generator, dtype=torch.float64)
    sample = made.sample(inputs, Randomness(6, torch.Generator().manual_seed(1)))
    covariance = linalg.add_jitter(made.kernel.square(inputs), made.jitter) * made.variance
    root = sample.inducing[..., : min(width, 5)]
    prior = dw.distributions.Wishart(width, covariance).log_prob_root(root)
    posterior = made.posterior(covariance).log_prob_root(root)
    torch.testing.assert_close(sample.log_ratio, prior - posterior, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("width", [2, 7])
def test_sticking_the_landing_leaves_the_mean_gradient(width):
    """Over many samples both estimators agree, and at the prior sticking has no noise."""
    gradients, noise = [], []
    for sticking in (True, False):
        made = layer(width, sticking_the_landing=sticking)
        ratio = made.sample(POINTS, Randomness(10_000, torch.Generator().manual_seed(2))).log_ratio
        slopes = [
            torch.autograd.grad(part.mean(), made.log_rate, retain_graph=True)[0]
            for part in ratio.split(250)
        ]
        gradients.append(torch.stack(slopes).mean(0))
        noise.append(torch.stack(slopes).std(0) / len(slopes) ** 0.5)
    error = (noise[0].square() + noise[1].square()).sqrt()
    assert bool(((gradients[0] - gradients[1]).abs() < 4.0 * error + 1e-12).all())


def test_without_observations_the_ratio_and_its_gradient_vanish():
    made = AnchoredLayer(dw.kernels.make("squared_exponential", dtype=torch.float64), 3, 5)
    with torch.no_grad():
        made.pseudo.log_precision.fill_(-80.0)
    ratio = made.sample(POINTS, Randomness(8, torch.Generator().manual_seed(0))).log_ratio
    torch.testing.assert_close(ratio, torch.zeros_like(ratio), rtol=0, atol=1e-9)
    slopes = torch.autograd.grad(ratio.sum(), [made.log_concentration, made.log_rate])
    assert all(float(slope.abs().max()) < 1e-8 for slope in slopes)


def test_features_stay_when_the_scale_moves():
    """What the family is for: a layer below that changes the kernel leaves the features where they
    were observed, while the paper's family takes them along."""
    moved = {}
    for posterior in ("anchored", "bartlett"):
        X = POINTS
        model = dw.build("dwp", X, X[:, :1], depth=2, num_inducing=5, posterior=posterior)
        hidden = model.hidden[0]
        hidden.start_from(model.first_inducing(), X / 3**0.5, noise=0.03)
        draws = []
        for factor in (1.0, 0.5):
            inducing = factor * model.first_inducing()
            sample = hidden.sample(inducing, Randomness(500, torch.Generator().manual_seed(0)))
            draws.append((sample.inducing @ sample.inducing.mT).mean(0).detach())
        moved[posterior] = float((draws[0] - draws[1]).norm() / draws[0].norm())
    assert moved["anchored"] < 0.5 * moved["bartlett"]


@pytest.mark.parametrize("width", [2, 5, 8])
def test_the_start_is_close_to_the_features(width):
    made = AnchoredLayer(dw.kernels.make("squared_exponential", dtype=torch.float64), width, 5)
    smooth = torch.zeros(5, width, dtype=torch.float64)
    smooth[:, :2] = POINTS[:, :2].sin() / 2**0.5
    start = made.start_from(POINTS, smooth, noise=0.03)
    expected = smooth @ smooth.mT
    assert start.shape == (5, width)
    assert float((start @ start.mT - expected).abs().max()) < 0.3 * float(expected.abs().max())
    sample = made.sample(POINTS, Randomness(200, torch.Generator().manual_seed(4)))
    mean = (sample.inducing @ sample.inducing.mT).mean(0).detach()
    assert float((mean - expected).abs().max()) < 0.5 * float(expected.abs().max())


def test_a_deep_model_trains_and_predicts():
    X = torch.linspace(-2, 2, 40, dtype=torch.float64)[:, None]
    y = (3 * X).sin()
    options = {"depth": 3, "width": 2, "num_inducing": 15, "output": "collapsed"}
    model = dw.build("dwp", X, y, posterior="anchored", **options)
    protocol = dw.training.Protocol.named("fast", 40).replace(max_iter=150, num_samples=4)
    history = dw.training.train(model, X, y, protocol)
    assert history.elbo[-1] > history.elbo[0] + 0.3 and history.elbo[-1] > -0.2
    prediction = model.predict(X, 20, torch.Generator().manual_seed(0))
    assert float((prediction.mean - y[:, 0]).abs().mean()) < 0.3


def test_a_failing_factorisation_names_the_layer():
    made = layer(3, name="layer 2")
    with torch.no_grad():
        made.kernel.log_height.fill_(float("nan"))
    with pytest.raises(linalg.CholeskyError, match="layer 2"):
        made.sample(POINTS, Randomness(2))
