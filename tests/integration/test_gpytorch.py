"""Doubly stochastic models against GPyTorch's, parameter for parameter."""

import math

import gpytorch
import pytest
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

import deepwishart as dw

JITTER = 1e-6


class Witness(DeepGPLayer):
    """A whitened GPyTorch layer with the parameters of one of ours."""

    def __init__(self, ours, offset=0.0, single=False):
        size, width = ours.whitened.mean.shape
        batch = torch.Size([] if single else [width])
        distribution = CholeskyVariationalDistribution(size, batch_shape=batch)
        Z = ours.whitened.inputs.detach().expand(*batch, -1, -1).clone()
        strategy = VariationalStrategy(self, Z, distribution, jitter_val=JITTER)
        super().__init__(strategy, Z.shape[-1], None if single else width)
        kernel = gpytorch.kernels.RBFKernel(
            batch_shape=batch, ard_num_dims=ours.kernel.num_features
        )
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel, batch_shape=batch)
        self.double()
        with torch.no_grad():
            kernel.lengthscale = ours.kernel.lengthscale.reshape(1, -1).expand(*batch, 1, -1)
            self.covar_module.outputscale = (ours.variance * ours.kernel.height).expand(batch)
            self.mean_module.constant.fill_(offset)
            distribution.variational_mean.copy_(ours.whitened.mean.mT.reshape(*batch, size))
            distribution.chol_variational_covar.copy_(
                ours.whitened.root.reshape(*batch, size, size)
            )
        strategy.variational_params_initialized.fill_(1)

    def forward(self, x):
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class WitnessModel(DeepGP):
    """Two layers, of which the second has a single column: GPyTorch then wants no batch."""

    def __init__(self, ours):
        super().__init__()
        self.hidden, self.last = Witness(ours.layers[0]), Witness(ours.output, single=True)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        self.likelihood.noise = ours.likelihood.noise.detach()

    def forward(self, x):
        return self.last(self.hidden(x))


def trained(X, y, steps, **options):
    generator = torch.Generator().manual_seed(0)
    model = dw.build("dsvi", X, y, jitter=JITTER, **options)
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-2)
    for _ in range(steps):
        optimiser.zero_grad()
        (-dw.elbo(model, X, y, num_data=2 * len(X), generator=generator)).backward()
        optimiser.step()
    return model


def inputs(rows):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    return X, 0.3 * torch.randn(rows, generator=generator, dtype=torch.float64)


def test_two_layer_objective_agrees_within_monte_carlo_error():
    X, noise = inputs(25)
    y = torch.sin(2 * X[:, 0]) + noise
    model = trained(X, y, 60, depth=2, width=2, num_inducing=8)
    witness = WitnessModel(model).train()
    objective = gpytorch.mlls.DeepApproximateMLL(
        gpytorch.mlls.VariationalELBO(witness.likelihood, witness, num_data=50)
    )
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    ours, theirs = [], []
    with torch.no_grad(), gpytorch.settings.num_likelihood_samples(200):
        for _ in range(20):
            theirs.append(objective(witness(X / math.sqrt(3)), y))
            ours.append(dw.elbo(model, X, y, num_data=50, num_samples=200, generator=generator))
    ours, theirs = torch.stack(ours), torch.stack(theirs)
    error = ((ours.var() + theirs.var()) / 20).sqrt()
    assert error < 0.01
    assert abs(ours.mean() - theirs.mean()) < 4 * error + 1e-5


@pytest.fixture(scope="module")
def classifier():
    X, noise = inputs(40)
    y = (X[:, 0] * X[:, 1] + noise > 0).double()
    likelihood = dw.likelihoods.Bernoulli()
    model = trained(X, y, 40, depth=1, num_inducing=10, likelihood=likelihood)
    return model, X, y, Witness(model.output, model.likelihood.offset.item(), single=True)


def test_the_bound_of_a_classifier_is_the_same(classifier):
    model, X, y, witness = classifier
    likelihood = gpytorch.likelihoods.BernoulliLikelihood().double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, witness.train(), num_data=80)
    expected = bound(witness(model.scale_inputs(X)), y).mean()  # of equal samples
    found = dw.elbo(model, X, y, num_data=80, num_samples=1)
    assert found.item() < -0.1
    # Its quadrature has 20 nodes, and the rows' own variances get jitter as well.
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=0)


def test_probabilities_of_a_classifier_are_the_same(classifier):
    model, X, _, witness = classifier
    likelihood = gpytorch.likelihoods.BernoulliLikelihood().eval()
    with torch.no_grad():
        expected = likelihood(witness.eval()(model.scale_inputs(X))).probs.mean(0)
    found = model.predict(X, num_samples=1).probs[:, 1]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
