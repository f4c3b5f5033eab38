"""Likelihoods over classes: the contract, known integrals, and latents far out."""

import math

import numpy as np
import pytest
import scipy.special
import torch

from deepwishart.likelihoods import Bernoulli, Categorical
from deepwishart.likelihoods.classes import cubature_nodes, log_ndtr

PRECISIONS = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["64", "32"])


def started(likelihood, *labels):
    """A likelihood whose offset knows how frequent classes are."""
    likelihood.start_from(torch.tensor(labels)[:, None])
    return likelihood


MAKERS = {
    "probit": lambda: Bernoulli(),
    "offset": lambda: started(Bernoulli(), 0.0, 1.0, 1.0),
    "softmax": lambda: started(Categorical(3), 0.0, 0.0, 1.0, 2.0),
}


def moments(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mean = 2.0 * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return mean, 1.5 * torch.rand(*shape, generator=generator, dtype=torch.float64)


def expected_on_a_grid(log_link, y, mean, variance):
    """Of the logarithm of a link, by a fine rule for the latent."""
    x = np.linspace(-10, 10, 4001)
    weight = np.exp(-0.5 * x**2) * 0.005 / math.sqrt(2 * math.pi)
    signed = (2 * y.numpy() - 1) * (mean.numpy() + np.sqrt(variance.numpy()) * x)
    return torch.as_tensor((weight * log_link(signed)).sum(1))


def test_expected_log_probability_against_a_fine_grid():
    mean, variance = moments(30, 1, seed=1)
    y = (torch.arange(30) % 2).double()[:, None]
    expected = expected_on_a_grid(scipy.special.log_ndtr, y, mean, variance)
    found = Bernoulli().expected_log_prob(y, mean, variance)
    torch.testing.assert_close(found, expected, atol=1e-7, rtol=1e-7)


def test_two_classes_of_the_softmax_are_logistic():
    """Only the difference of two latents counts, and its variance is the sum of theirs."""
    mean, variance = moments(50, 2, seed=2)
    y = (torch.arange(50) % 2).double()[:, None]
    difference = mean[:, 1:] - mean[:, :1], variance.sum(1, keepdim=True)
    exact = expected_on_a_grid(scipy.special.log_expit, y, *difference)
    found = Categorical(2).expected_log_prob(y, mean, variance)
    torch.testing.assert_close(found, exact, atol=6e-3, rtol=0)


@pytest.mark.parametrize("dimension", [2, 3, 10, 40])
def test_nodes_are_exact_for_polynomials_of_degree_three(dimension):
    nodes = cubature_nodes(dimension, 32)
    assert len(nodes) >= max(32, 2 * dimension)
    eye = torch.eye(dimension, dtype=torch.float64)
    torch.testing.assert_close(nodes.mean(0), torch.zeros(dimension, dtype=torch.float64))
    torch.testing.assert_close(nodes.mT @ nodes / len(nodes), eye)
    cubes = torch.einsum("ki,kj,kl->ijl", nodes, nodes, nodes) / len(nodes)
    torch.testing.assert_close(cubes, torch.zeros_like(cubes))


@PRECISIONS
@pytest.mark.parametrize("name", MAKERS)
def test_latents_far_out(name, dtype):
    """Values and gradients stay finite, and errors pull back."""
    likelihood = MAKERS[name]().to(dtype)
    y = torch.zeros(2, likelihood.num_outputs, dtype=dtype)
    for size in (1e2, 1e4, 1e8, 1e14):
        for spread in (0.0, 1.0, 1e4):
            mean = torch.full((2, likelihood.num_latents), -size, dtype=dtype)
            mean[:, -1] = size  # all on the side of the last class, and the target is the first
            mean.requires_grad_()
            variance = torch.full_like(mean, spread).requires_grad_()
            value = likelihood.expected_log_prob(y, mean, variance)
            gradients = torch.autograd.grad(value.sum(), [mean, variance])
            assert value.isfinite().all() and (value < -0.9 * size).all()
            assert all(gradient.isfinite().all() for gradient in gradients)
            assert (gradients[0][:, -1] < -0.5).all()
            law, _ = likelihood.predictive(mean.detach(), variance.detach())
            assert law.log_prob(y).isfinite().all() and law.probs.isfinite().all()


def test_the_normal_distribution_functions_logarithm():
    x = torch.linspace(-40, 40, 801, dtype=torch.float64, requires_grad=True)
    value = log_ndtr(x)
    expected = scipy.special.log_ndtr(x.detach().numpy())
    np.testing.assert_allclose(value.detach().numpy(), expected, rtol=1e-12, atol=1e-300)
    (slope,) = torch.autograd.grad(value.sum(), x)
    at = x.detach().numpy()
    ratio = np.exp(-0.5 * at**2 - 0.5 * math.log(2 * math.pi) - expected)
    np.testing.assert_allclose(slope.numpy(), ratio, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(
    ("make", "weights", "labels", "expected"),
    [
        (Bernoulli, [1.0, 1.0], (0, 0, 0, 1), 0.25),
        (Bernoulli, [1.0, 3.0], (0, 0, 0, 1), 0.5),
        (
            lambda **options: Categorical(3, **options),
            [1.0, 1.0, 1.0],
            (0, 1, 1, 2),
            [0.25, 0.5, 0.25],
        ),
    ],
)
def test_without_inputs_classes_are_as_frequent_as_they_were(make, weights, labels, expected):
    likelihood = started(make(class_weights=weights), *map(float, labels))
    zero = torch.zeros(1, likelihood.num_latents, dtype=torch.float64)
    found = likelihood.distribution(zero).probs.detach().squeeze()
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_weights_of_classes():
    mean, variance = moments(4, 3)
    y = torch.tensor([[0.0], [1.0], [2.0], [1.0]], dtype=torch.float64)
    plain = Categorical(3).expected_log_prob(y, mean, variance)
    weighted = Categorical(3, class_weights=[1.0, 0.0, 2.5]).expected_log_prob(y, mean, variance)
    factors = torch.tensor([1.0, 0.0, 2.5, 0.0], dtype=torch.float64)
    torch.testing.assert_close(weighted, factors * plain)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Categorical(1), "at least 2 classes, got 1"),
        (lambda: Categorical(3, class_weights=[1.0, 2.0]), "class_weights must be 3 finite"),
        (lambda: Bernoulli(class_weights=[1.0, -2.0]), "class_weights must be 2 finite"),
        (lambda: Bernoulli(class_weights=[1.0, math.nan]), "class_weights must be 2 finite"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
