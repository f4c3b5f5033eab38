"""Theorems of the collapsed output layer."""

import contextlib
import math

import numpy as np
import pytest
import torch

import deepwishart as dw
from deepwishart.kernels import SquaredExponential
from deepwishart.layers import CollapsedOutputLayer, DoublyStochasticLayer
from deepwishart.likelihoods import Gaussian
from deepwishart.model import DeepKernelProcess, ProcessSample
from deepwishart.numerics.gaussian import formed

from ..conftest import plain_paths

PROCESSES = ["dwp", "dgp", "dsvi", "diwp"]
NOISE, HEIGHT, LENGTHSCALES = 0.05, 1.7, (0.8, 1.4)


def problem(rows=30, outputs=1):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(rows, 2, generator=generator, dtype=torch.float64)
    noise = 0.2 * torch.randn(rows, outputs, generator=generator, dtype=X.dtype)
    columns = [torch.sin((2 + d) * X[:, 0]) * X[:, 1] for d in range(outputs)]
    return X, torch.stack(columns, dim=1) + noise


def sparse_gp(X, y, num_inducing, output="collapsed", jitter=1e-12, process="dwp"):
    """Depth 1 with known parameters."""
    model = dw.build(
        process, X, y, depth=1, num_inducing=num_inducing, noise=NOISE, output=output, jitter=jitter
    )
    with torch.no_grad():
        # Inputs enter divided by the root of the number of features.
        lengthscales = torch.tensor(LENGTHSCALES, dtype=X.dtype) / math.sqrt(2)
        model.output.kernel.log_lengthscale.copy_(lengthscales.log())
        model.output.kernel.log_height.fill_(math.log(HEIGHT))
        model.likelihood.log_noise.copy_(
            (NOISE * torch.arange(1, y.shape[1] + 1, dtype=X.dtype)).log()
        )
    return model


def train(model, X, y, **options):
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-2)
    generator = torch.Generator().manual_seed(1)
    for _ in range(100):
        optimiser.zero_grad()
        (-dw.elbo(model, X, y, num_data=len(X), generator=generator, **options)).backward()
        optimiser.step()
    return generator


def dense_kernel(a, b):
    a, b = (np.asarray(x) / np.array(LENGTHSCALES) for x in (a, b))
    return HEIGHT * np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1))


def dense_bound(X, y, Z, noise):
    """log N(y; 0, Q + s2 I) - tr(K - Q) / 2 s2, written with dense inverses."""
    X, y, Z = X.numpy(), y.numpy(), Z.numpy()
    K_ti = dense_kernel(X, Z)
    Q = K_ti @ np.linalg.solve(dense_kernel(Z, Z), K_ti.T)
    marginal = Q + noise * np.eye(len(X))
    fit = -0.5 * (y @ np.linalg.solve(marginal, y) + np.linalg.slogdet(2 * np.pi * marginal)[1])
    return fit - np.trace(dense_kernel(X, X) - Q) / (2 * noise)


def dense_prediction(X, y, Z, new, noise):
    X, y, Z, new = (t.numpy() for t in (X, y, Z, new))
    K_ii, K_it, K_in = dense_kernel(Z, Z), dense_kernel(Z, X), dense_kernel(Z, new)
    S = np.linalg.inv(K_ii + K_it @ K_it.T / noise)
    mean = K_in.T @ S @ K_it @ y / noise
    covariance = dense_kernel(new, new) - K_in.T @ (np.linalg.inv(K_ii) - S) @ K_in
    return mean, covariance


@pytest.fixture(params=[True, False], ids=["native", "plain"])
def path(request):
    with contextlib.nullcontext() if request.param else plain_paths():
        yield


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("outputs", [1, 3])
def test_depth_one_is_the_collapsed_bound_of_a_sparse_gp(process, outputs):
    X, y = problem(outputs=outputs)
    model = sparse_gp(X, y, 6, process=process)
    Z = model.inducing_inputs
    Z = model.output.inducing_inputs * math.sqrt(2) if Z is None else Z
    noises = model.likelihood.noise.tolist()
    expected = sum(dense_bound(X, y[:, d], Z.detach(), noise) for d, noise in enumerate(noises))
    bound = dw.elbo(model, X, y, num_data=30, num_samples=2)
    assert abs(bound.item() - expected / 30) < 1e-9


@pytest.mark.usefixtures("path")
def test_with_inducing_points_at_the_rows_it_is_the_log_evidence():
    X, y = problem()
    model = sparse_gp(X, y, 30)
    K = dense_kernel(X, X) + NOISE * np.eye(30)
    evidence = -0.5 * (
        y[:, 0].numpy() @ np.linalg.solve(K, y[:, 0].numpy()) + np.linalg.slogdet(2 * np.pi * K)[1]
    )
    bound = dw.elbo(model, X, y, num_data=30, num_samples=1)
    assert abs(bound.item() - evidence / 30) < 1e-7


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("num_inducing", [6, 30])
def test_predictions_are_those_of_the_sparse_gp(num_inducing):
    # With all rows as inducing points it is the exact GP.
    X, y = problem(outputs=3)
    model = sparse_gp(X, y, num_inducing)
    new = torch.randn(9, 2, generator=torch.Generator().manual_seed(5), dtype=X.dtype)
    (mean, variance), *_ = model.predict(new, num_samples=2).latents()
    functions = model.posterior(4000, torch.Generator().manual_seed(6)).sample_functions(new)
    Z = model.inducing_inputs.detach()
    for d, noise in enumerate(model.likelihood.noise.tolist()):
        expected, covariance = dense_prediction(X, y[:, d], Z, new, noise)
        np.testing.assert_allclose(mean[0, :, d].numpy(), expected, rtol=0, atol=1e-6)
        np.testing.assert_allclose(variance[0, :, d].numpy(), np.diag(covariance), atol=1e-6)
        drawn = functions.functions[:, :, d].numpy() - expected
        whitened = drawn @ np.linalg.inv(np.linalg.cholesky(covariance + 1e-9 * np.eye(9))).T
        np.testing.assert_allclose(whitened.T @ whitened / 4000, np.eye(9), atol=0.12)


def optimal_pseudo_observations(collapsed, inducing, X, y):
    """q(u) of the collapsed bound, as precisions and targets at the inducing points: with
    K_ii = L L^T and A = L^-1 K_it, Lambda = L^-T A A^T L^-1 / s2 and Lambda v = L^-T A y / s2."""
    with torch.no_grad():
        points = collapsed.first_inducing()
        K_ii = collapsed.output.covariance(points, jitter=0.0)
        K_it = formed(collapsed.output.kernel.cross(points, collapsed.scale_inputs(X)))
        weights = torch.linalg.solve(K_ii, K_it)
        precision = weights @ weights.mT / NOISE
        values, vectors = torch.linalg.eigh(precision)
        inducing.output.pseudo.precision_shape.copy_(vectors * values.clamp_min(0).sqrt())
        inducing.output.pseudo.log_precision.zero_()
        inducing.output.pseudo.targets.copy_(torch.linalg.solve(precision, weights @ y / NOISE))


def test_it_is_the_inducing_layer_s_bound_with_the_best_pseudo_observations():
    X, y = problem()
    collapsed, inducing = (sparse_gp(X, y, 6, output) for output in ("collapsed", "inducing"))
    best, start = (dw.elbo(m, X, y, num_data=30, num_samples=1) for m in (collapsed, inducing))
    assert start < best - 0.01
    optimal_pseudo_observations(collapsed, inducing, X, y)
    reached = dw.elbo(inducing, X, y, num_data=30, num_samples=1)
    torch.testing.assert_close(reached, best, rtol=0, atol=1e-9)


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("trained", [False, True])
def test_it_is_never_below_the_inducing_layer_s_bound(process, trained):
    # For the same sample of the hidden layers, sample by sample.
    X, y = problem(outputs=2)
    inducing = dw.build(process, X, y, depth=3, num_inducing=8)
    if trained:
        train(inducing, X, y)
    collapsed = dw.build(process, X, y, depth=3, num_inducing=8, output="collapsed")
    known = {k: v for k, v in inducing.state_dict().items() if k in collapsed.state_dict()}
    collapsed.load_state_dict(known, strict=False)
    if process == "dsvi":
        with torch.no_grad():
            collapsed.output.inducing_inputs.copy_(inducing.output.whitened.inputs)
    data_terms = []
    for model in (inducing, collapsed):
        random = model.randomness(50, torch.Generator().manual_seed(4))
        with torch.no_grad():
            layers = tuple(model.sample_hidden(random, integrate=False))
            output = model.output.sample(layers[-1].inducing, random)
            sample = ProcessSample(model, layers, output, 50)
            summary = sample.summarise(X, y, random.rows())
            data_term = sample.output.data_term(summary, model.likelihood)
        data_terms.append(data_term + sample.output.log_ratio)
    difference = data_terms[1] - data_terms[0]
    assert difference.shape == (50,)
    assert bool((difference > 0).all())


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("output", ["collapsed", "inducing"])
def test_chunks_change_neither_the_bound_nor_its_gradient(process, output):
    X, y = problem(rows=2500, outputs=2)
    model = dw.build(process, X, y, depth=3, num_inducing=5, output=output)
    found = []
    for chunk_rows in (None, 1024):
        model.zero_grad()
        random = model.randomness(2, torch.Generator().manual_seed(4))
        sample = model.sample(random)
        summary = sample.summarise(X, y, random.rows(), chunk_rows=chunk_rows)
        bound = (sample.output.data_term(summary, model.likelihood) + sample.log_ratio).mean()
        bound.backward()
        found.append([bound.detach(), *(p.grad.clone() for p in model.parameters())])
    for whole, chunked in zip(*found, strict=True):
        scale = whole.abs().max().clamp_min(1e-3)
        assert (chunked - whole).abs().max() < 1e-10 * scale


@pytest.mark.parametrize("process", ["dwp", "dgp"])
def test_with_joint_rows_it_is_a_bound_on_the_evidence(process):
    X, y = problem(rows=8)
    model = dw.build(process, X, y, depth=2, num_inducing=4, output="collapsed")
    generator = train(model, X, y, num_samples=5, joint=True)
    options = {"num_data": 8, "num_samples": 100, "generator": generator, "joint": True}
    with torch.no_grad():
        bounds = torch.stack([dw.elbo(model, X, y, **options) for _ in range(40)])
        evidence = dw.importance_weighted_bound(
            model, X, y, num_importance=1000, num_replicates=40, generator=generator
        )
    error = (bounds.var() / 40 + evidence.var() / 40).sqrt()
    assert error < 0.01
    assert bounds.mean() < evidence.mean() - 3 * error


def test_rows_that_share_their_inducing_variables_are_no_independent_evidence():
    """Eight rows at the one inducing point of a hidden layer whose q is its prior: all rows are
    equal there, so the evidence is that of a constant with noise. Rows drawn one by one would
    each have an inducing variable of its own, and eight values to fit eight targets with."""
    kernel = {"dtype": torch.float64}
    hidden = DoublyStochasticLayer(SquaredExponential(**kernel), torch.zeros(1, 1).double(), 1)
    points = torch.linspace(-2, 2, 8, dtype=torch.float64)[:, None]
    model = DeepKernelProcess(
        "custom",
        [hidden],
        CollapsedOutputLayer(SquaredExponential(**kernel), 1, inducing_inputs=points),
        Gaussian(1, noise=0.01),
        inducing_inputs=None,
        num_features=1,
        num_inducing=1,
    )
    X, y = torch.zeros(8, 1, dtype=torch.float64), points
    covariance = torch.ones(8, 8, dtype=torch.float64) + 0.01 * torch.eye(8, dtype=torch.float64)
    evidence = torch.distributions.MultivariateNormal(y.new_zeros(8), covariance)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        bound = dw.elbo(model, X, y, num_data=8, num_samples=1_000, generator=generator)
    assert 8 * float(bound) <= float(evidence.log_prob(y[:, 0])) + 1e-3
