"""Noise that depends on the inputs, and noise with heavy tails."""

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, special, stats

import deepwishart as dw
from deepwishart.likelihoods import HeteroscedasticGaussian, HeteroscedasticStudentT, StudentT
from deepwishart.training import Protocol, train

PRECISIONS = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["64", "32"])


def test_gradients_lead_back_from_a_vanishing_noise():
    """A clamped logarithm would leave the latent where it is."""
    latents = torch.tensor([[0.0, -90.0]], dtype=torch.float32, requires_grad=True)
    likelihood = HeteroscedasticGaussian(1, noise=0.3).float()
    value = likelihood.expected_log_prob(torch.ones(1, 1), latents, torch.zeros(1, 2))
    (gradient,) = torch.autograd.grad(value.sum(), latents)
    assert float(gradient[0, 1]) > 0


@pytest.mark.parametrize("degrees", [2.1, 4.0, 60.0])
def test_predictive_of_student_t_is_a_convolution(degrees):
    likelihood = StudentT(1, scale=0.2, degrees=degrees)
    mean, variance = torch.zeros(1, 1).double(), torch.full((1, 1), 0.5).double()
    mixture = likelihood.predictive(mean, variance)
    with torch.no_grad():
        for y, tolerance in ((0.0, 1e-3), (1.0, 1e-3), (5.0, 0.05), (40.0, 0.05)):
            terms = mixture.components.log_prob(torch.full((1, 1), y).double()).squeeze()
            found = float((terms + mixture.log_weights).logsumexp(0))
            density, _ = integrate.quad(
                lambda f, y=y: stats.norm.pdf(f, 0, 0.5**0.5) * stats.t.pdf(y - f, degrees, 0, 0.2),
                -5,
                5,
                points=[y] if y < 5 else None,
                limit=200,
            )
            assert found == pytest.approx(np.log(density), abs=tolerance, rel=2e-3)


@PRECISIONS
@pytest.mark.parametrize("degrees", [2.001, 2.1, 3.0, 50.0])
@pytest.mark.parametrize("kind", [StudentT, HeteroscedasticStudentT])
def test_the_predictive_variance_has_all_of_the_tails(kind, degrees, dtype):
    """Close to two degrees of freedom, most of it is further out than any grid of precisions."""
    likelihood = kind(1, 0.3, degrees).to(dtype)
    zero = torch.zeros(1, likelihood.num_latents, dtype=dtype)
    mixture = likelihood.predictive(zero, zero)
    spread = mixture.log_weights.exp() @ mixture.components.variance.flatten()
    expected = likelihood.distribution(zero).variance.item()
    assert spread.item() == pytest.approx(expected, rel=1e-6 if dtype == torch.float64 else 1e-3)
    assert mixture.log_weights.exp().sum().item() == pytest.approx(1.0, abs=1e-5)


def test_with_many_degrees_of_freedom_student_t_is_gaussian():
    many, gaussian = HeteroscedasticStudentT(1, 0.3, degrees=1e7), HeteroscedasticGaussian(1, 0.3)
    random = torch.Generator().manual_seed(0)
    y, mean, variance = (torch.rand(5, n, generator=random).double() for n in (1, 2, 2))
    found, expected = (each.expected_log_prob(y, mean, variance) for each in (many, gaussian))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_the_bound_of_heteroscedastic_t_is_that_of_the_best_precisions():
    r"""The expectation under Gaussians of precision w, minus the divergence of q(w) from its prior,
    for a Gamma q that is found numerically."""
    nu, y, (m_f, m_g), (v_f, v_g), noise = 5.0, 1.7, (0.2, -0.3), (0.4, 0.6), 0.3
    likelihood = HeteroscedasticStudentT(1, noise, nu)
    moments = (torch.tensor([pair]).double() for pair in ((m_f, m_g), (v_f, v_g)))
    found = float(likelihood.expected_log_prob(torch.tensor([[y]]).double(), *moments).detach())
    u = ((y - m_f) ** 2 + v_f) / noise * np.exp(0.5 * v_g - m_g)

    def bound(log_parameters):
        a, b = np.exp(log_parameters)
        mean_w, mean_log_w, prior = a / b, special.digamma(a) - np.log(b), 0.5 * nu
        gaussian = 0.5 * (mean_log_w - np.log(2 * np.pi * noise) - m_g - mean_w * u)
        log_p = (prior - 1) * mean_log_w - prior * mean_w
        log_p += prior * np.log(prior) - special.gammaln(prior)
        log_q = (a - 1) * mean_log_w - b * mean_w + a * np.log(b) - special.gammaln(a)
        return -(gaussian + log_p - log_q)

    best = optimize.minimize(bound, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9})
    assert found == pytest.approx(-best.fun, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: StudentT(1, scale=0.0), "scale must be a positive number"),
        (lambda: StudentT(1, degrees=2.0), "degrees"),
        (lambda: HeteroscedasticStudentT(1, degrees=2.0), "degrees must be above 2"),
        (lambda: HeteroscedasticGaussian(1, noise=-1.0), "noise must be a positive number"),
    ],
)
def test_parameters_are_checked(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.fixture(scope="module")
def widening():
    """A sine whose noise grows, and models of it with both kinds of noise."""
    random = np.random.default_rng(0)
    x = np.linspace(-2, 2, 400)[:, None]
    y = np.sin(2 * x) + (0.05 + 0.2 * (x + 2)) * random.standard_normal(x.shape)
    X, y = torch.as_tensor(x), torch.as_tensor(y)
    protocol = Protocol.named("fast", len(X)).replace(max_iter=150, kl_anneal=10, num_samples=4)
    models = {}
    for name, likelihood in (("constant", None), ("growing", HeteroscedasticGaussian())):
        models[name] = dw.build("dwp", X, y, num_inducing=15, likelihood=likelihood)
        train(models[name], X, y, protocol)
    return models, X, y


def test_noise_follows_the_data(widening):
    models, X, y = widening
    generator = torch.Generator().manual_seed(0)
    predictions = {name: model.predict(X, 30, generator) for name, model in models.items()}
    width = predictions["growing"].stddev
    assert float(width[-40:].mean() / width[:40].mean()) > 4.0  # in truth 0.81 over 0.09
    gain = predictions["growing"].log_prob(y) - predictions["constant"].log_prob(y)
    assert float(gain.mean()) > 0.15
