"""A depth-1 Bernoulli model against GPyTorch's variational classifier, parameter for parameter."""

import gpytorch
import pytest
import torch
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

import deepwishart as dw
from deepwishart.likelihoods import Bernoulli

JITTER = 1e-6


class Witness(gpytorch.models.ApproximateGP):
    """A whitened variational GP with the parameters of our output layer."""

    def __init__(self, model):
        whitened = model.output.whitened
        distribution = CholeskyVariationalDistribution(len(whitened.inputs))
        Z = whitened.inputs.detach().clone()
        super().__init__(VariationalStrategy(self, Z, distribution, jitter_val=JITTER))
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1])
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)
        self.mean_module = gpytorch.means.ConstantMean()
        self.double()
        ours = model.output
        kernel.lengthscale = ours.kernel.lengthscale.detach().reshape(1, -1)
        self.covar_module.outputscale = (ours.variance * ours.kernel.height).detach().squeeze()
        self.mean_module.constant = model.likelihood.offset.detach().squeeze()
        self.variational_strategy.variational_params_initialized.fill_(1)
        with torch.no_grad():
            distribution.variational_mean.copy_(whitened.mean.squeeze(-1))
            distribution.chol_variational_covar.copy_(whitened.root.squeeze(0))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@pytest.fixture(scope="module")
def trained():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    y = (X[:, 0] * X[:, 1] + 0.3 * torch.randn(40, generator=generator).double() > 0).double()
    likelihood = Bernoulli()
    options = {"depth": 1, "num_inducing": 10, "likelihood": likelihood, "jitter": JITTER}
    model = dw.build("dsvi", X, y, **options)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-2)
    for _ in range(40):
        optimiser.zero_grad()
        (-dw.elbo(model, X, y, num_data=80, num_samples=1)).backward()
        optimiser.step()
    return model, X, y


def test_the_bound_is_the_same(trained):
    model, X, y = trained
    witness, likelihood = Witness(model).train(), gpytorch.likelihoods.BernoulliLikelihood()
    bound = gpytorch.mlls.VariationalELBO(likelihood.double(), witness, num_data=80)
    expected = bound(witness(model.scale_inputs(X)), y)
    found = dw.elbo(model, X, y, num_data=80, num_samples=1)
    assert found.item() < -0.1
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_predictions_are_the_same(trained):
    model, X, _ = trained
    witness, likelihood = Witness(model).eval(), gpytorch.likelihoods.BernoulliLikelihood().eval()
    with torch.no_grad():
        expected = likelihood(witness(model.scale_inputs(X))).probs
    found = model.predict(X, num_samples=1).probs[:, 1]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
