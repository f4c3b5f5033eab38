"""The Wishart layer's posterior: its density, sticking the landing, its starting point."""

import math

import pytest
import torch

import deepwishart as dw
from deepwishart.layers import WishartLayer
from deepwishart.numerics import linalg
from deepwishart.random import Randomness, RowRandomness


def layer_and_inputs(width: int, num_inducing: int = 5, **options):
    generator = torch.Generator().manual_seed(0)
    kernel = dw.kernels.make("squared_exponential", dtype=torch.float64)
    layer = WishartLayer(kernel, width, num_inducing, **options)
    with torch.no_grad():
        layer.mean.normal_(generator=generator)
    inputs = torch.randn(num_inducing, 3, generator=generator, dtype=torch.float64)
    return layer, inputs


BARTLETT = ("log_concentration", "log_rate", "mean", "log_deviation")


def set_to_prior(layer: WishartLayer) -> None:
    rank = layer.mean.shape[1]
    with torch.no_grad():
        layer.log_concentration.copy_(
            (torch.arange(layer.width, layer.width - rank, -1, dtype=torch.float64) / 2).log()
        )
        layer.log_rate.fill_(math.log(0.5))
        layer.mean.zero_()
        layer.log_deviation.zero_()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("width", [1, 3, 5, 8])  # singular, and wider than there are points
def test_the_ratio_is_that_of_the_two_densities(width, shared):
    layer, inputs = layer_and_inputs(width, initial_mixing=0.5)
    with torch.no_grad():
        layer.learned_root.normal_(generator=torch.Generator().manual_seed(7))
        layer.log_rate.add_(0.2)
    if not shared:
        generator = torch.Generator().manual_seed(3)
        inputs = torch.randn(6, 5, 3, generator=generator, dtype=torch.float64)
    sample = layer.sample(inputs, Randomness(6, torch.Generator().manual_seed(1)))
    kernel = linalg.add_jitter(layer.kernel.square(inputs), layer.jitter)
    root = sample.inducing[..., : layer.mean.shape[1]]
    prior = dw.distributions.Wishart(width, kernel * layer.variance).log_prob_root(root)
    posterior = layer.posterior(kernel * layer.variance).log_prob_root(root)
    torch.testing.assert_close(sample.log_ratio, prior - posterior, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("width", [1, 3, 5, 8])
def test_gradient_of_the_kl_vanishes_for_every_sample_where_posterior_is_prior(width):
    layer, inputs = layer_and_inputs(width)
    set_to_prior(layer)
    log_ratio = layer.sample(inputs, Randomness(20, torch.Generator().manual_seed(1))).log_ratio
    torch.testing.assert_close(log_ratio, torch.zeros_like(log_ratio), atol=1e-9, rtol=0)
    parameters = [getattr(layer, name) for name in BARTLETT]
    for term in log_ratio:
        for gradient in torch.autograd.grad(term, parameters, retain_graph=True):
            assert float(gradient.abs().max()) < 1e-9


def test_without_it_the_gradient_is_noisy_at_the_same_place():
    layer, inputs = layer_and_inputs(3, sticking_the_landing=False)
    set_to_prior(layer)
    log_ratio = layer.sample(inputs, Randomness(1, torch.Generator().manual_seed(1))).log_ratio
    (gradient,) = torch.autograd.grad(log_ratio.sum(), [layer.log_deviation])
    assert float(gradient.abs().max()) > 0.1


@pytest.mark.parametrize("width", [2, 7])
def test_sticking_the_landing_is_unbiased(width):
    layer, inputs = layer_and_inputs(width)
    parameters = [getattr(layer, name) for name in BARTLETT]
    with torch.no_grad():
        layer.log_deviation.fill_(-0.5)
    samples, chunks = torch.empty(2, 40, sum(p.numel() for p in parameters)).double(), 40
    for landing in (1, 0):
        layer.sticking_the_landing = bool(landing)
        generator = torch.Generator().manual_seed(2 + landing)
        for chunk in range(chunks):
            log_ratio = layer.sample(inputs, Randomness(500, generator)).log_ratio
            gradients = torch.autograd.grad(log_ratio.mean(), parameters)
            samples[landing, chunk] = torch.cat([g.flatten() for g in gradients])
    error = samples.var(1).sum(0).div(chunks).sqrt() + 1e-9
    z = samples.mean(1).diff(dim=0) / error
    assert float(z.abs().max()) < 5.0
    assert float(z.square().mean()) < 2.0


@pytest.mark.parametrize("width", [6, 9])
def test_layers_wider_than_the_inducing_points_are_padded_with_zeros(width):
    layer, inputs = layer_and_inputs(width)
    sample = layer.sample(inputs, Randomness(3, torch.Generator().manual_seed(1)))
    assert sample.inducing.shape == (3, 5, width)
    assert bool((sample.inducing[..., 5:] == 0).all())
    rows = sample.rows(inputs + 0.1, RowRandomness(3, seed=0))
    assert rows.shape == (3, 5, width)
    # The padded columns still carry conditional noise in the rows.
    assert bool((rows[..., 5:].abs().amax((0, 1)) > 0).all())
    assert sample.log_ratio.shape == (3,)


@pytest.mark.parametrize("width", [2, 5, 8])
def test_the_start_is_the_posterior_given_features_observed_with_noise(width):
    """With B = L A standard normal a priori, column by column and (for the deviations) entry by
    entry, against the textbook formulas with explicit inverses."""
    layer, inputs = layer_and_inputs(width, initial_mixing=0.018)
    rank = layer.mean.shape[1]
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(5, width, generator=generator, dtype=torch.float64)
    features[:, rank:] = 0
    start = layer.start_from(inputs, features)

    tau2 = 0.03 / width
    covariance = layer.covariance(inputs).detach()
    lower = torch.linalg.cholesky(covariance)
    # The lower trapezoidal root of F F^T with a positive diagonal is unique.
    gram_root = torch.linalg.qr(features.mT, mode="complete").R.mT[:, :rank]
    gram_root = gram_root * gram_root.diagonal().sign()
    eye = torch.eye(5, dtype=torch.float64)
    centre = lower.mT @ torch.linalg.inv(lower @ lower.mT + tau2 * eye) @ gram_root
    below = torch.ones(5, rank).tril(-1).bool()
    torch.testing.assert_close(layer.mean[below], centre[below], rtol=1e-6, atol=1e-8)
    chi_square = width - torch.arange(rank, dtype=torch.float64)  # the prior's mean of the squares
    least = (chi_square * 0.03 / 1.03).sqrt()
    diagonal = torch.maximum(centre.diagonal(), least)
    torch.testing.assert_close(layer.mean.diagonal(), diagonal, rtol=1e-6, atol=1e-8)
    # Gamma-distributed squares of the diagonal have their mean at the square of the start.
    ratio = (layer.log_concentration - layer.log_rate).exp()
    torch.testing.assert_close(ratio, diagonal.square(), rtol=1e-6, atol=1e-8)

    expected = 1 / (1 + lower.square().sum(0) / tau2)
    torch.testing.assert_close(
        (2 * layer.log_deviation).exp(), expected[:, None].expand(5, rank), rtol=1e-8, atol=0
    )
    learned = layer.learned_root @ layer.learned_root.mT
    torch.testing.assert_close(learned, covariance, rtol=1e-10, atol=1e-12)
    assert start.shape == (5, width)
    torch.testing.assert_close(start[:, :rank], lower @ layer.mean.tril(), rtol=1e-10, atol=1e-12)


def test_the_start_is_close_to_features_that_the_prior_finds_likely():
    layer, inputs = layer_and_inputs(2)
    smooth = inputs[:, :2].sin() / 2**0.5
    start = layer.start_from(inputs, smooth)
    gram, expected = start @ start.mT, smooth @ smooth.mT
    assert float((gram - expected).abs().max()) < 0.1 * float(expected.abs().max())
    sample = layer.sample(inputs, Randomness(200, torch.Generator().manual_seed(4)))
    mean = (sample.inducing @ sample.inducing.mT).mean(0).detach()
    assert float((mean - expected).abs().max()) < 0.3 * float(expected.abs().max())


def test_redundant_inducing_points_start_at_the_prior():
    layer, inputs = layer_and_inputs(2)
    inputs[4] = inputs[3] + 1e-7
    layer.start_from(inputs, inputs[:, :2] / 2**0.5)
    deviation, mean = layer.log_deviation.detach().exp(), layer.mean.detach()
    assert float((deviation[4] - 1).abs().max()) < 1e-3
    assert float(mean[4].abs().max()) < 1e-2
    assert float(deviation[0].max()) < 0.2


def test_a_failing_factorisation_names_the_layer():
    layer, inputs = layer_and_inputs(3, name="layer 2", initial_mixing=0.018)
    with torch.no_grad():
        layer.learned_root.fill_(float("nan"))
    with pytest.raises(linalg.CholeskyError, match="layer 2"):
        layer.sample(inputs, Randomness(2))
