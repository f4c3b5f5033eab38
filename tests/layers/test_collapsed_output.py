"""The collapsed output layer against dense formulas, for every sample and column."""

import pytest
import torch
from torch.distributions import MultivariateNormal

from deepwishart.kernels import Matern32, SquaredExponential
from deepwishart.layers import CollapsedOutputLayer
from deepwishart.likelihoods import Bernoulli, Gaussian
from deepwishart.numerics.gaussian import formed
from deepwishart.random import Randomness

SAMPLES, INDUCING, ROWS = 3, 5, 12


def setting(kernel=SquaredExponential):
    generator = torch.Generator().manual_seed(0)
    inducing = torch.randn(SAMPLES, INDUCING, 2, generator=generator, dtype=torch.float64)
    rows = torch.randn(SAMPLES, ROWS, 2, generator=generator, dtype=torch.float64)
    y = torch.randn(ROWS, 2, generator=generator, dtype=torch.float64)
    layer = CollapsedOutputLayer(kernel(height=1.5, dtype=torch.float64), 2)
    likelihood = Gaussian(2)
    with torch.no_grad():
        likelihood.log_noise.copy_(torch.tensor([-2.0, 0.3]))
    return layer, likelihood, inducing, rows, y


@torch.no_grad()
@pytest.mark.parametrize("kernel", [SquaredExponential, Matern32])
def test_data_term_is_the_bound_of_titsias(kernel):
    layer, likelihood, inducing, rows, y = setting(kernel)
    sample = layer.sample(inducing, Randomness(SAMPLES))
    found = sample.data_term(sample.summarise(rows, y, likelihood), likelihood)
    assert float(sample.log_ratio) == 0.0
    for index in range(SAMPLES):
        kii = layer.covariance(inducing[index])
        kit = formed(layer.kernel.cross(inducing[index], rows[index]))
        low_rank = kit.mT @ torch.linalg.solve(kii, kit)
        rest = layer.kernel.diagonal(rows[index]).sum() - low_rank.trace()
        expected = 0.0
        for column, noise in enumerate(likelihood.noise):
            covariance = low_rank + noise * torch.eye(ROWS, dtype=torch.float64)
            marginal = MultivariateNormal(torch.zeros(ROWS, dtype=torch.float64), covariance)
            expected = expected + marginal.log_prob(y[:, column]) - rest / (2 * noise)
        torch.testing.assert_close(found[index], expected, rtol=1e-8, atol=1e-8)


@torch.no_grad()
@pytest.mark.parametrize("kernel", [SquaredExponential, Matern32])
def test_predictor_is_the_best_posterior_over_inducing_outputs(kernel):
    layer, likelihood, inducing, rows, y = setting(kernel)
    sample = layer.sample(inducing, Randomness(SAMPLES))
    function = sample.predictor(sample.summarise(rows, y, likelihood), likelihood)
    new = rows[:, :4] + 0.3
    mean, variance = function.moments(new)
    joint = function.joint_moments(new)
    for index in range(SAMPLES):
        kii = layer.covariance(inducing[index])
        kit, kin = (formed(layer.kernel.cross(inducing[index], x[index])) for x in (rows, new))
        for column, noise in enumerate(likelihood.noise):
            precision = kii + kit @ kit.mT / noise
            m = kin.mT @ torch.linalg.solve(precision, kit @ y[:, column]) / noise
            covariance = (
                layer.kernel.square(new[index])
                - kin.mT @ torch.linalg.solve(kii, kin)
                + kin.mT @ torch.linalg.solve(precision, kin)
            )
            close = {"rtol": 1e-7, "atol": 1e-8}
            torch.testing.assert_close(mean[index, :, column], m, **close)
            torch.testing.assert_close(variance[index, :, column], covariance.diagonal(), **close)
            torch.testing.assert_close(joint.mean[index, :, column], m, **close)
            torch.testing.assert_close(joint.covariance[index, column], covariance, **close)


def test_only_gaussian_noise_is_integrated():
    layer, likelihood, inducing, rows, y = setting()
    sample = layer.sample(inducing, Randomness(SAMPLES))
    summary = sample.summarise(rows, y, likelihood)
    with pytest.raises(ValueError, match="integrates Gaussian noise; Bernoulli needs"):
        sample.data_term(summary, Bernoulli(2))
    with pytest.raises(ValueError, match="the output layer predicts from the sums"):
        sample.predictor(None, likelihood)
