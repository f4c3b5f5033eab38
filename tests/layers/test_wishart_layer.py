"""The layers of a deep Wishart process: ratios, sticking the landing, starting points."""

import math

import pytest
import torch

import deepwishart as dw
from deepwishart.layers import AnchoredLayer, BartlettLayer, WishartLayer
from deepwishart.numerics import linalg
from deepwishart.random import Randomness, RowRandomness
from deepwishart.testing import check_layer

KINDS = pytest.mark.parametrize("kind", [WishartLayer, AnchoredLayer])
WIDTHS = pytest.mark.parametrize("width", [1, 3, 5, 8])  # singular, and wider than there are points
SQUARES = ("log_concentration", "log_rate")


def layer_and_inputs(kind: type[BartlettLayer], width: int, **options):
    """A layer away from its start, and points below it."""
    generator = torch.Generator().manual_seed(0)
    dtype = options.get("dtype", torch.float64)
    layer = kind(dw.kernels.make("squared_exponential", dtype=dtype), width, 5, **options)
    inputs = torch.randn(5, 3, generator=generator, dtype=torch.float64).to(dtype)
    with torch.no_grad():
        if kind is WishartLayer:
            layer.mean.normal_(generator=generator)
        else:
            features = torch.randn(5, width, generator=generator, dtype=torch.float64)
            layer.start_from(inputs, features.to(dtype) / width**0.5, noise=0.5)
    return layer, inputs


def learned(layer: BartlettLayer) -> list[torch.nn.Parameter]:
    """The parameters of which sticking the landing detaches the score."""
    names = (*SQUARES, "mean", "log_deviation") if isinstance(layer, WishartLayer) else SQUARES
    return [getattr(layer, name) for name in names]


@torch.no_grad()
def set_to_prior(layer: BartlettLayer) -> None:
    degrees = torch.arange(layer.width, layer.width - layer.rank, -1, dtype=torch.float64)
    layer.log_concentration.copy_((degrees / 2).log())
    layer.log_rate.fill_(math.log(0.5))
    if isinstance(layer, AnchoredLayer):
        layer.pseudo.log_precision.fill_(-80.0)
    else:
        layer.mean.zero_()
        layer.log_deviation.zero_()


def seeded(number: int, seed: int = 1) -> Randomness:
    return Randomness(number, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["64", "32"])
@WIDTHS
def test_the_anchored_layer_fulfils_the_contract(width, dtype):
    check_layer(*layer_and_inputs(AnchoredLayer, width, dtype=dtype))


@pytest.mark.parametrize("shared", [True, False])
@WIDTHS
@KINDS
def test_the_ratio_is_that_of_the_two_densities(kind, width, shared):
    options = {"initial_mixing": 0.5} if kind is WishartLayer else {}
    layer, inputs = layer_and_inputs(kind, width, **options)
    with torch.no_grad():
        layer.log_rate.add_(0.2)
        if kind is WishartLayer:
            layer.learned_root.normal_(generator=torch.Generator().manual_seed(7))
    if not shared:
        generator = torch.Generator().manual_seed(3)
        inputs = torch.randn(6, 5, 3, generator=generator, dtype=torch.float64)
    sample = layer.sample(inputs, seeded(6))
    kernel = linalg.add_jitter(layer.kernel.square(inputs), layer.jitter)
    root = sample.inducing[..., : layer.rank]
    prior = dw.distributions.Wishart(width, kernel * layer.variance).log_prob_root(root)
    squares = width, layer.log_concentration.exp(), layer.log_rate.exp()
    if kind is WishartLayer:
        scale, rest = layer.posterior_scale(kernel * layer.variance), ("mean", "log_deviation")
        mean, log_deviation = (getattr(layer, name) for name in rest)
        law = dw.distributions.GeneralisedSingularWishart(
            *squares, mean, log_deviation.exp(), covariance_matrix=scale
        )
    else:
        observed = layer.pseudo.targets, layer.pseudo.root
        law = dw.distributions.AnchoredWishart(*squares, *observed, kernel * layer.variance)
    posterior = law.log_prob_root(root)
    torch.testing.assert_close(sample.log_ratio, prior - posterior, rtol=1e-8, atol=1e-8)


@WIDTHS
@KINDS
def test_the_gradient_vanishes_for_every_sample_where_posterior_is_prior(kind, width):
    layer, inputs = layer_and_inputs(kind, width)
    set_to_prior(layer)
    log_ratio = layer.sample(inputs, seeded(20)).log_ratio
    torch.testing.assert_close(log_ratio, torch.zeros_like(log_ratio), atol=1e-9, rtol=0)
    for term in log_ratio:
        for gradient in torch.autograd.grad(term, learned(layer), retain_graph=True):
            assert float(gradient.abs().max()) < 1e-8


def test_without_sticking_the_gradient_is_noisy_at_the_same_place():
    layer, inputs = layer_and_inputs(WishartLayer, 3, sticking_the_landing=False)
    set_to_prior(layer)
    log_ratio = layer.sample(inputs, seeded(1)).log_ratio
    (gradient,) = torch.autograd.grad(log_ratio.sum(), [layer.log_deviation])
    assert float(gradient.abs().max()) > 0.1


@pytest.mark.parametrize("width", [2, 7])
@KINDS
def test_sticking_the_landing_is_unbiased(kind, width):
    layer, inputs = layer_and_inputs(kind, width)
    if kind is WishartLayer:
        layer.log_deviation.data.fill_(-0.5)
    chunks, means, errors = 40, [], []
    for sticking in (True, False):
        layer.sticking_the_landing = sticking
        generator = torch.Generator().manual_seed(2 + sticking)
        gradients = []
        for _ in range(chunks):
            log_ratio = layer.sample(inputs, Randomness(500, generator)).log_ratio
            slopes = torch.autograd.grad(log_ratio.mean(), learned(layer))
            gradients.append(torch.cat([slope.flatten() for slope in slopes]))
        means.append(torch.stack(gradients).mean(0))
        errors.append(torch.stack(gradients).var(0) / chunks)
    z = (means[0] - means[1]) / (sum(errors).sqrt() + 1e-9)
    assert float(z.abs().max()) < 5.0
    assert float(z.square().mean()) < 2.0


@pytest.mark.parametrize("width", [6, 9])
def test_layers_wider_than_the_inducing_points_are_padded_with_zeros(width):
    layer, inputs = layer_and_inputs(WishartLayer, width)
    sample = layer.sample(inputs, seeded(3))
    assert sample.inducing.shape == (3, 5, width)
    assert bool((sample.inducing[..., 5:] == 0).all())
    rows = sample.rows(inputs + 0.1, RowRandomness(3, seed=0))
    assert rows.shape == (3, 5, width)
    # The padded columns still carry conditional noise in the rows.
    assert bool((rows[..., 5:].abs().amax((0, 1)) > 0).all())


@pytest.mark.parametrize("width", [2, 5, 8])
def test_the_start_is_the_posterior_given_features_observed_with_noise(width):
    """With B = L A standard normal a priori, column by column and (for the deviations) entry by
    entry, against the textbook formulas with explicit inverses."""
    layer, inputs = layer_and_inputs(WishartLayer, width, initial_mixing=0.018)
    rank = layer.rank
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


@pytest.mark.parametrize("width", [2, 5, 8])
@KINDS
def test_the_start_is_close_to_features_that_the_prior_finds_likely(kind, width):
    layer, inputs = layer_and_inputs(kind, width)
    smooth = torch.zeros(5, width, dtype=torch.float64)
    smooth[:, :2] = inputs[:, :2].sin() / 2**0.5
    start = layer.start_from(inputs, smooth)
    expected = smooth @ smooth.mT
    assert start.shape == (5, width)
    assert float((start @ start.mT - expected).abs().max()) < 0.3 * float(expected.abs().max())
    sample = layer.sample(inputs, seeded(200, seed=4))
    mean = (sample.inducing @ sample.inducing.mT).mean(0).detach()
    assert float((mean - expected).abs().max()) < 0.5 * float(expected.abs().max())


def test_redundant_inducing_points_start_at_the_prior():
    layer, inputs = layer_and_inputs(WishartLayer, 2)
    inputs[4] = inputs[3] + 1e-7
    layer.start_from(inputs, inputs[:, :2] / 2**0.5)
    deviation, mean = layer.log_deviation.detach().exp(), layer.mean.detach()
    assert float((deviation[4] - 1).abs().max()) < 1e-3
    assert float(mean[4].abs().max()) < 1e-2
    assert float(deviation[0].max()) < 0.2


def test_anchored_features_stay_when_the_scale_moves():
    """What the family is for: a layer below that changes the kernel leaves the features where they
    were observed, while the paper's family takes them along."""
    moved = {}
    for kind in (AnchoredLayer, WishartLayer):
        layer, inputs = layer_and_inputs(kind, 3)
        layer.start_from(inputs, inputs / 3**0.5, noise=0.03)
        draws = []
        for factor in (1.0, 0.5):
            root = layer.sample(factor * inputs, seeded(500)).inducing
            draws.append((root @ root.mT).mean(0).detach())
        moved[kind] = float((draws[0] - draws[1]).norm() / draws[0].norm())
    assert moved[AnchoredLayer] < 0.5 * moved[WishartLayer]
