"""Depth 1 with the right parameters is exact Gaussian process regression."""

import math

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import deepwishart as dw

NOISE, HEIGHT = 0.05, 1.7
LENGTHSCALES = np.array([0.8, 1.4])


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(30, 2, generator=generator, dtype=torch.float64)
    y = torch.sin(2 * X[:, 0]) * X[:, 1] + 0.2 * torch.randn(30, generator=generator, dtype=X.dtype)
    return X, y, torch.randn(11, 2, generator=generator, dtype=torch.float64)


def witness(X, y):
    kernel = ConstantKernel(HEIGHT) * RBF(LENGTHSCALES) + WhiteKernel(NOISE)
    return GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X.numpy(), y.numpy())


def exact_model(process, X, y):
    model = dw.build(process, X, y, depth=1, num_inducing=30, noise=NOISE, jitter=1e-12)
    with torch.no_grad():
        model.inducing_inputs.copy_(X)
        # The model divides inputs by sqrt(number of features), hence the lengthscales too.
        kernel = model.output.kernel
        kernel.log_lengthscale.copy_(torch.tensor(LENGTHSCALES / math.sqrt(2)).log())
        kernel.log_height.fill_(math.log(HEIGHT))
        model.output.pseudo.targets.copy_(y[:, None])
        model.output.pseudo.log_precision.fill_(-math.log(NOISE))
    return model


@pytest.mark.parametrize("process", ["dwp", "dgp", "diwp"])
def test_elbo_is_the_log_marginal_likelihood(process, data):
    X, y, _ = data
    expected = witness(X, y).log_marginal_likelihood_value_ / len(y)
    bound = dw.elbo(exact_model(process, X, y), X, y, num_data=len(y))
    assert abs(bound.item() - expected) < 1e-6


def test_predictive_is_gp_regression(data):
    X, y, new = data
    mean, std = witness(X, y).predict(new.numpy(), return_std=True)
    predictive = exact_model("dwp", X, y).predict(new, num_samples=3)
    np.testing.assert_allclose(predictive.mean, mean, atol=1e-6)
    np.testing.assert_allclose(predictive.stddev, std, atol=1e-6)


def test_sampled_output_layer_weighs_every_sample_by_the_evidence(data):
    # Posterior = truth, so every importance weight p(y, u) / q(u) is the marginal likelihood.
    X, y, _ = data
    model = exact_model("dwp", X, y)
    expected = witness(X, y).log_marginal_likelihood_value_ / len(y)
    estimates = dw.importance_weighted_bound(model, X, y, num_importance=1, num_replicates=5)
    torch.testing.assert_close(estimates, torch.full_like(estimates, expected), atol=1e-5, rtol=0)


def test_whitened_sparse_gp_reaches_the_exact_posterior(data):
    X, y, new = data
    model = dw.build("dsvi", X, y, depth=1, num_inducing=30, noise=NOISE, jitter=1e-10)
    gp = witness(X, y)
    with torch.no_grad():
        layer = model.output
        layer.whitened.inputs.copy_(X / math.sqrt(2))
        layer.kernel.log_lengthscale.copy_(torch.tensor(LENGTHSCALES / math.sqrt(2)).log())
        layer.kernel.log_height.fill_(math.log(HEIGHT))
        K = layer.kernel.square(layer.whitened.inputs)
        L = torch.linalg.cholesky(K + 1e-10 * HEIGHT * torch.eye(30, dtype=K.dtype))
        S = torch.linalg.inv(torch.eye(30, dtype=K.dtype) + L.mT @ L / NOISE)
        layer.whitened.set((S @ L.mT @ y / NOISE)[:, None], torch.linalg.cholesky(S)[None])
    bound = dw.elbo(model, X, y, num_data=len(y))
    assert abs(bound.item() - gp.log_marginal_likelihood_value_ / len(y)) < 1e-6
    mean, std = gp.predict(new.numpy(), return_std=True)
    predictive = model.predict(new, num_samples=1)
    np.testing.assert_allclose(predictive.mean, mean, atol=1e-6)
    np.testing.assert_allclose(predictive.stddev, std, atol=1e-6)


def test_two_target_columns_are_two_gps(data):
    X, y, new = data
    both = torch.stack([y, 3 * y + X[:, 0]], dim=1)
    model = dw.build("dwp", X, both, depth=1, num_inducing=30, noise=NOISE, jitter=1e-12)
    with torch.no_grad():
        model.inducing_inputs.copy_(X)
        kernel = model.output.kernel
        kernel.log_lengthscale.copy_(torch.tensor(LENGTHSCALES / math.sqrt(2)).log())
        kernel.log_height.fill_(math.log(HEIGHT))
        model.output.pseudo.targets.copy_(both)
        model.output.pseudo.log_precision.fill_(-math.log(NOISE))
    gps = [witness(X, column) for column in both.mT]
    expected = sum(gp.log_marginal_likelihood_value_ for gp in gps) / len(y)
    assert abs(dw.elbo(model, X, both, num_data=len(y)).item() - expected) < 1e-6
    predictive = model.predict(new, num_samples=1)
    for column, gp in enumerate(gps):
        np.testing.assert_allclose(predictive.mean[:, column], gp.predict(new.numpy()), atol=1e-6)
