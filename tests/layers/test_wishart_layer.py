"""The Wishart layer's posterior: its density, sticking the landing, its starting point."""

import math

import pytest
import torch

import deepwishart as dw
from deepwishart.layers import WishartLayer
from deepwishart.noise import Noise


def layer_and_inputs(width: int, num_inducing: int = 5, **options):
    generator = torch.Generator().manual_seed(0)
    kernel = dw.kernels.make("squared_exponential", dtype=torch.float64)
    layer = WishartLayer(kernel, width, num_inducing, generator=generator, **options)
    inputs = torch.randn(num_inducing, 3, generator=generator, dtype=torch.float64)
    return layer, inputs


def set_to_prior(layer: WishartLayer) -> None:
    rank = layer.loc.shape[1]
    with torch.no_grad():
        layer.mixing_logit.fill_(-80.0)
        layer.log_concentration.copy_(
            (torch.arange(layer.width, layer.width - rank, -1, dtype=torch.float64) / 2).log()
        )
        layer.log_rate.fill_(math.log(0.5))
        layer.loc.zero_()
        layer.log_scale.zero_()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("width", [1, 3, 5, 8])  # singular, and wider than there are points
def test_the_ratio_is_that_of_the_two_densities(width, shared):
    layer, inputs = layer_and_inputs(width)
    with torch.no_grad():
        layer.mixing_logit.fill_(0.3)
        layer.log_rate.add_(0.2)
    if not shared:
        generator = torch.Generator().manual_seed(3)
        inputs = torch.randn(6, 5, 3, generator=generator, dtype=torch.float64)
    noise = Noise(6, torch.Generator().manual_seed(1))
    state, log_ratio = layer.sample_inducing(inputs, noise)
    kernel = dw.linalg.add_jitter(layer.kernel.square(inputs), layer.jitter)
    root = state.outputs[..., : layer.loc.shape[1]]
    prior = dw.distributions.Wishart(width, kernel * layer.scale).log_prob_root(root)
    posterior = layer.posterior(kernel * layer.scale).log_prob_root(root)
    torch.testing.assert_close(log_ratio, prior - posterior, rtol=1e-8, atol=1e-8)


BARTLETT = ["log_concentration", "log_rate", "loc", "log_scale"]


@pytest.mark.parametrize("width", [1, 3, 5, 8])
def test_gradient_of_the_kl_vanishes_for_every_sample_where_posterior_is_prior(width):
    layer, inputs = layer_and_inputs(width)
    set_to_prior(layer)
    noise = Noise(20, torch.Generator().manual_seed(1))
    _, log_ratio = layer.sample_inducing(inputs, noise)
    torch.testing.assert_close(log_ratio, torch.zeros_like(log_ratio), atol=1e-9, rtol=0)
    parameters = [getattr(layer, name) for name in BARTLETT]
    for term in log_ratio:
        for gradient in torch.autograd.grad(term, parameters, retain_graph=True):
            assert float(gradient.abs().max()) < 1e-9


def test_without_it_the_gradient_is_noisy_at_the_same_place():
    layer, inputs = layer_and_inputs(3, sticking_the_landing=False)
    set_to_prior(layer)
    _, log_ratio = layer.sample_inducing(inputs, Noise(1, torch.Generator().manual_seed(1)))
    (gradient,) = torch.autograd.grad(log_ratio.sum(), [layer.log_scale])
    assert float(gradient.abs().max()) > 0.1


@pytest.mark.parametrize("width", [2, 7])
def test_sticking_the_landing_is_unbiased(width):
    layer, inputs = layer_and_inputs(width)
    parameters = [getattr(layer, name) for name in BARTLETT]
    with torch.no_grad():
        layer.log_scale.fill_(-0.5)
    samples, chunks = {}, 40
    for landing in (True, False):
        layer.sticking_the_landing = landing
        generator = torch.Generator().manual_seed(2 + landing)
        rows = []
        for _ in range(chunks):
            _, log_ratio = layer.sample_inducing(inputs, Noise(500, generator))
            gradients = torch.autograd.grad(log_ratio.mean(), parameters)
            rows.append(torch.cat([g.flatten() for g in gradients]))
        samples[landing] = torch.stack(rows)
    difference = samples[True].mean(0) - samples[False].mean(0)
    error = (samples[True].var(0) + samples[False].var(0)).div(chunks).sqrt() + 1e-9
    z = difference / error
    assert float(z.abs().max()) < 5.0
    assert float(z.square().mean()) < 2.0


@pytest.mark.parametrize("width", [6, 9])
def test_layers_wider_than_the_inducing_points_are_padded_with_zeros(width):
    layer, inputs = layer_and_inputs(width)
    state, log_ratio = layer.sample_inducing(inputs, Noise(3))
    assert state.outputs.shape == (3, 5, width)
    assert bool((state.outputs[..., 5:] == 0).all())
    rows = layer.sample_rows(state, inputs + 0.1, Noise(3))
    assert rows.shape == (3, 5, width)
    # The padded columns still carry conditional noise in the rows.
    assert bool((rows[..., 5:].abs().amax((0, 1)) > 0).all())
    assert log_ratio.shape == (3,)


@pytest.mark.parametrize("width, rank", [(2, 2), (5, 5), (8, 5)])
def test_start_from_centres_the_posterior_on_the_given_gram_matrix(width, rank):
    layer, inputs = layer_and_inputs(width)
    features = torch.randn(
        5, width, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    features[:, rank:] = 0
    start = layer.start_from(inputs, features)
    torch.testing.assert_close(start @ start.mT, features @ features.mT, atol=1e-4, rtol=1e-4)
    with torch.no_grad():
        layer.log_scale.fill_(-20.0)
        layer.log_concentration.fill_(20.0)
        layer.log_rate.copy_(20.0 - 2.0 * layer.loc.diagonal().log())
        state, _ = layer.sample_inducing(inputs, Noise(1, torch.Generator().manual_seed(4)))
    gram = (state.outputs @ state.outputs.mT)[0]
    torch.testing.assert_close(gram, features @ features.mT, atol=1e-3, rtol=1e-3)


def test_a_failing_factorisation_names_the_layer():
    layer, inputs = layer_and_inputs(3, name="layer 2")
    with torch.no_grad():
        layer.scale_root.fill_(float("nan"))
    with pytest.raises(dw.linalg.CholeskyError, match="layer 2"):
        layer.sample_inducing(inputs, Noise(2))
