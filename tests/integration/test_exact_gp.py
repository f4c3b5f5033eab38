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


def set_kernel(kernel):
    """Known values; the model divides inputs by sqrt(number of features), hence lengthscales."""
    kernel.log_lengthscale.data.copy_(torch.tensor(LENGTHSCALES / math.sqrt(2)).log())
    kernel.log_height.data.fill_(math.log(HEIGHT))


def exact_model(process, X, y):
    model = dw.build(process, X, y, depth=1, num_inducing=30, noise=NOISE, jitter=1e-12)
    set_kernel(model.output.kernel)
    with torch.no_grad():
        model.inducing_inputs.copy_(X)
        model.output.pseudo.targets.copy_(y.reshape(30, -1))
        model.output.pseudo.log_precision.fill_(-math.log(NOISE))
    return model


def whitened_model(X, y):
    model = dw.build("dsvi", X, y, depth=1, num_inducing=30, noise=NOISE, jitter=1e-10)
    layer, eye = model.output, torch.eye(30, dtype=X.dtype)
    set_kernel(layer.kernel)
    with torch.no_grad():
        layer.whitened.inputs.copy_(X / math.sqrt(2))
        K = layer.kernel.square(layer.whitened.inputs)
        L = torch.linalg.cholesky(K + 1e-10 * HEIGHT * eye)
        S = torch.linalg.inv(eye + L.mT @ L / NOISE)
        root = torch.linalg.cholesky(S)
        layer.whitened.mean.copy_((S @ L.mT @ y / NOISE)[:, None])
        layer.whitened.root_lower.copy_(root)
        layer.whitened.log_root_diagonal.copy_(root.diagonal().log())
    return model


@pytest.mark.parametrize("process", ["dwp", "dgp", "diwp", "dsvi"])
def test_the_bound_is_the_evidence_and_the_prediction_gp_regression(process, data):
    X, y, new = data
    gp = witness(X, y)
    model = whitened_model(X, y) if process == "dsvi" else exact_model(process, X, y)
    bound = dw.elbo(model, X, y, num_data=len(y))
    assert abs(bound.item() - gp.log_marginal_likelihood_value_ / len(y)) < 1e-6
    mean, std = gp.predict(new.numpy(), return_std=True)
    predictive = model.predict(new, num_samples=3)
    np.testing.assert_allclose(predictive.mean, mean, atol=1e-6)
    np.testing.assert_allclose(predictive.stddev, std, atol=1e-6)


def test_sampled_output_layer_weighs_every_sample_by_the_evidence(data):
    # Posterior = truth, so every importance weight p(y, u) / q(u) is the marginal likelihood.
    X, y, _ = data
    model = exact_model("dwp", X, y)
    expected = witness(X, y).log_marginal_likelihood_value_ / len(y)
    estimates = dw.importance_weighted_bound(model, X, y, num_importance=1, num_replicates=5)
    torch.testing.assert_close(estimates, torch.full_like(estimates, expected), atol=1e-5, rtol=0)


def test_two_target_columns_are_two_gps(data):
    X, y, new = data
    both = torch.stack([y, 3 * y + X[:, 0]], dim=1)
    model = exact_model("dwp", X, both)
    gps = [witness(X, column) for column in both.mT]
    expected = sum(gp.log_marginal_likelihood_value_ for gp in gps) / len(y)
    assert abs(dw.elbo(model, X, both, num_data=len(y)).item() - expected) < 1e-6
    predictive = model.predict(new, num_samples=1)
    for column, gp in enumerate(gps):
        np.testing.assert_allclose(predictive.mean[:, column], gp.predict(new.numpy()), atol=1e-6)
