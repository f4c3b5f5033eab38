"""A single layer by L-BFGS."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import solve_triangular
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import deepwishart as dw
from deepwishart.bound import elbo, importance_weighted_bound
from deepwishart.numerics import linalg
from deepwishart.numerics.gaussian import formed
from deepwishart.training import deterministic, train_deterministic


@pytest.fixture(scope="module")
def problem():
    generator = torch.Generator().manual_seed(7)
    X = torch.randn(60, 2, generator=generator, dtype=torch.float64)
    noise = torch.randn(60, 1, generator=generator, dtype=torch.float64)
    y = (2.0 * X[:, :1]).sin() + 0.3 * X[:, 1:] + 0.2 * noise
    return (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()


def single(problem, process="dwp", **options):
    return dw.build(process, *problem, depth=1, output="collapsed", **options)


@pytest.mark.parametrize("process", ["dwp", "dsvi"])
def test_with_all_rows_it_is_the_exact_gp(problem, process):
    X, y = problem
    model = single(problem, process, num_inducing=60)
    history = train_deterministic(model, X, y)
    assert history.stopped_by == "converged"
    kernel = ConstantKernel() * RBF(np.ones(2)) + WhiteKernel()
    exact = GaussianProcessRegressor(kernel).fit(X.numpy(), y.numpy().ravel())
    evidence = exact.log_marginal_likelihood_value_ / 60
    assert history.elbo[-1] == pytest.approx(evidence, abs=1e-4)
    bound = elbo(model, X, y, num_data=60, num_samples=1).item()
    assert bound == pytest.approx(evidence, abs=1e-3)  # what jitter takes
    mean, std = exact.predict(X.numpy() + 0.1, return_std=True)
    prediction = model.predict(X + 0.1)
    np.testing.assert_allclose(prediction.mean, mean, atol=5e-3)
    np.testing.assert_allclose(prediction.stddev, std, atol=5e-3)
    # The points have stayed at the rows.
    assert deterministic._all_rows_induce(model, X)


def test_few_points_move_and_end_close_to_the_evidence(problem):
    X, y = problem
    model = single(problem, num_inducing=15)
    before = model.inducing_inputs.detach().clone()
    history = train_deterministic(model, X, y)
    assert not torch.equal(model.inducing_inputs, before)
    exact = train_deterministic(single(problem, num_inducing=60), X, y)
    assert exact.elbo[-1] - 0.05 < history.elbo[-1] < exact.elbo[-1]
    assert history.elbo == sorted(history.elbo)
    assert model.inducing_inputs.requires_grad and model.inducing_inputs.grad is None


def test_single_precision_comes_back_and_agrees(problem):
    X, y = problem
    model = single(problem, num_inducing=60, dtype=torch.float32)
    history = train_deterministic(model, X.float(), y.float())
    assert model.dtype == torch.float32 and model.training_inputs.dtype == torch.float32
    jitter = linalg.default_jitter(torch.float32)
    double = train_deterministic(single(problem, num_inducing=60, jitter=jitter), X, y)
    assert history.elbo[-1] == pytest.approx(double.elbo[-1], abs=1e-4)


def test_steps_are_limited_and_appended(problem):
    model = single(problem, num_inducing=60)
    history = train_deterministic(model, *problem, max_iter=3)
    assert (history.stopped_by, history.step) == ("max_iter", [0, 1, 2])
    train_deterministic(model, *problem, max_iter=2, history=history)
    assert history.step == [0, 1, 2, 3, 4]
    assert history.elbo == sorted(history.elbo)


def test_a_failing_evaluation_is_passed_over(problem, monkeypatch):
    """Here and there the bound cannot be computed; L-BFGS goes round it."""
    model, calls = single(problem, num_inducing=60), []
    usual = deterministic.elbo

    def sometimes(*arguments, **options):
        calls.append(1)
        if len(calls) == 4:
            raise dw.numerics.linalg.CholeskyError("not positive definite")
        return usual(*arguments, **options)

    monkeypatch.setattr(deterministic, "elbo", sometimes)
    history = train_deterministic(model, *problem)
    assert len(calls) > 5 and history.elbo[-1] > history.elbo[0] + 0.1


def test_ctrl_c_keeps_the_last_step(problem):
    model = single(problem, num_inducing=60)

    def interrupt(event):
        if event.step == 2:
            raise KeyboardInterrupt

    history = train_deterministic(model, *problem, progress=interrupt)
    assert (history.stopped_by, len(history)) == ("interrupt", 3)
    bound = elbo(model, *problem, num_data=60, num_samples=1).item()
    assert bound == pytest.approx(history.elbo[-1], abs=1e-3)


@pytest.mark.parametrize("kernel", ["squared_exponential", "matern52"])
def test_targets_without_noise(kernel):
    """Branin's function: the bound is close to the evidence of its own parameters, 0.1 per row for
    the jitter, and predictions are those of LAPACK's triangular solves, to a hundredth of the
    noise. With a floor of 1e-6 under the noise they were nats apart."""
    X = torch.rand(50, 2, generator=torch.Generator().manual_seed(0)).double()
    a, b = 15 * X[:, :1] - 5, 15 * X[:, 1:]
    wave = 10 * (1 - 1 / (8 * math.pi)) * a.cos()
    y = (b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6) ** 2 + wave
    inputs, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    model = single((inputs, y), num_inducing=50, kernel=kernel)
    history = train_deterministic(model, inputs, y)
    evidence = importance_weighted_bound(model, inputs, y, num_importance=1).item()
    assert evidence - 0.12 < history.elbo[-1] < evidence
    assert model.likelihood.noise.item() < 1e-5 * model.output.kernel.height.item()

    new = torch.rand(40, 2, generator=torch.Generator().manual_seed(1)).double()
    with torch.no_grad():
        posterior = model.posterior(1)
        mean, variance = (part[0, :, 0].numpy() for part in posterior.latents(new))
        noise, kernel = model.likelihood.noise.item(), model.output.kernel
        rows, points, training = (
            model.scale_inputs(each) for each in (new, model.inducing_inputs, inputs)
        )
        square, cross, between = (
            part.numpy()
            for part in (
                kernel.square(points, jitter=model.output.jitter),
                formed(kernel.cross(points, rows)),
                formed(kernel.cross(points, training)),
            )
        )
    lower = np.linalg.cholesky(square)
    whitened, design = (solve_triangular(lower, each, lower=True) for each in (cross, between))
    inner = np.linalg.cholesky(np.eye(50) + design @ design.T / noise)
    spread = solve_triangular(inner, whitened, lower=True)
    found = solve_triangular(inner, design @ y.numpy()[:, 0] / noise, lower=True)
    expected = kernel.height.item() - (whitened**2).sum(0) + (spread**2).sum(0)
    assert np.abs(variance - expected).max() < 0.01 * noise
    assert np.abs(mean - spread.T @ found).max() < 0.01 * noise**0.5
