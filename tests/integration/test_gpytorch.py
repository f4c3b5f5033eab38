"""A two-layer dsvi model against GPyTorch's deep GP, parameter for parameter."""

import math

import gpytorch
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

import deepwishart as dw

JITTER = 1e-6


class Witness(DeepGPLayer):
    """A whitened GPyTorch layer with the parameters of one of ours."""

    def __init__(self, ours, output_dims):
        size, width = ours.whitened.mean.shape
        batch = torch.Size([width])
        distribution = CholeskyVariationalDistribution(size, batch_shape=batch)
        Z = ours.whitened.inputs.detach().expand(width, -1, -1).clone()
        strategy = VariationalStrategy(self, Z, distribution, jitter_val=JITTER)
        super().__init__(strategy, Z.shape[-1], output_dims)
        kernel = gpytorch.kernels.RBFKernel(
            batch_shape=batch, ard_num_dims=ours.kernel.num_features
        )
        self.mean_module = gpytorch.means.ZeroMean(batch_shape=batch)
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel, batch_shape=batch)
        self.double()
        lengthscale = ours.kernel.lengthscale.detach().reshape(1, 1, -1).expand(width, -1, -1)
        kernel.lengthscale = lengthscale
        self.covar_module.outputscale = (ours.variance * ours.kernel.height).detach().expand(width)
        strategy.variational_params_initialized.fill_(1)
        with torch.no_grad():
            distribution.variational_mean.copy_(ours.whitened.mean.mT)
            distribution.chol_variational_covar.copy_(ours.whitened.root)

    def forward(self, x):
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class WitnessModel(DeepGP):
    def __init__(self, ours):
        super().__init__()
        self.hidden = Witness(ours.layers[0], ours.layers[0].width)
        self.last = Witness(ours.output, None) if ours.num_outputs > 1 else Last(ours.output)
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        self.likelihood.noise = ours.likelihood.noise.detach()

    def forward(self, x):
        return self.last(self.hidden(x))


class Last(Witness):
    """A single output: GPyTorch then wants no batch dimension."""

    def __init__(self, ours):
        super().__init__(ours, None)

    def __call__(self, inputs):
        out = super().__call__(inputs)
        mean, covariance = out.mean.squeeze(-2), out.lazy_covariance_matrix.squeeze(-3)
        return MultivariateNormal(mean, covariance)


def test_two_layer_objective_agrees_within_monte_carlo_error():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(25, 3, generator=generator, dtype=torch.float64)
    y = torch.sin(2 * X[:, 0]) + 0.2 * torch.randn(25, generator=generator, dtype=X.dtype)
    model = dw.build("dsvi", X, y, depth=2, width=2, num_inducing=8, jitter=JITTER)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-2)
    for _ in range(60):
        optimiser.zero_grad()
        (-dw.elbo(model, X, y, num_data=50, generator=generator)).backward()
        optimiser.step()

    witness = WitnessModel(model)
    witness.train()
    objective = gpytorch.mlls.DeepApproximateMLL(
        gpytorch.mlls.VariationalELBO(witness.likelihood, witness, num_data=50)
    )
    torch.manual_seed(1)
    ours, theirs = [], []
    with torch.no_grad(), gpytorch.settings.num_likelihood_samples(200):
        for _ in range(20):
            theirs.append(objective(witness(X / math.sqrt(3)), y))
            ours.append(dw.elbo(model, X, y, num_data=50, num_samples=200, generator=generator))
    ours, theirs = torch.stack(ours), torch.stack(theirs)
    error = ((ours.var() + theirs.var()) / 20).sqrt()
    assert error < 0.01
    assert abs(ours.mean() - theirs.mean()) < 4 * error + 1e-5
