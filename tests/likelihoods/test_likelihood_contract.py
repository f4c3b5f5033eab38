"""The Gaussian likelihood fulfils the contract, and broken relatives of it do not."""

import math

import pytest
import torch
from torch import Tensor

from deepwishart.likelihoods import Gaussian
from deepwishart.testing import check_likelihood


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize(("num_outputs", "noise"), [(1, 0.1), (1, 1e-3), (3, 2.0)])
def test_contract(num_outputs: int, noise: float, dtype: torch.dtype) -> None:
    check_likelihood(Gaussian(num_outputs, noise), dtype=dtype)


def test_columns_may_differ_in_noise() -> None:
    likelihood = Gaussian(2, dtype=torch.float64)
    with torch.no_grad():
        likelihood.log_noise.copy_(torch.tensor([-3.0, 0.5]))
    check_likelihood(likelihood)


def test_the_check_leaves_the_likelihood_alone() -> None:
    likelihood = Gaussian(2, dtype=torch.float32)
    check_likelihood(likelihood, dtype=torch.float64)
    assert likelihood.log_noise.dtype == torch.float32
    assert likelihood.log_noise.grad is None


class _PlugIn(Gaussian):
    """The density at the mean, not its expectation."""

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return super().expected_log_prob(y, mean, 0.0 * variance)


class _NotNormalised(Gaussian):
    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return super().expected_log_prob(y, mean, variance) + 0.5 * math.log(2 * math.pi)


class _Shifted(Gaussian):
    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return super().expected_log_prob(y, mean + 0.01, variance)


class _StandardDeviation(Gaussian):
    def predictive_variance(self, variance: Tensor) -> Tensor:
        return variance + self.noise.sqrt()


class _NoiseOnly(Gaussian):
    def predictive_variance(self, variance: Tensor) -> Tensor:
        return 0.0 * variance + self.noise


class _ColumnsApart(Gaussian):
    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        squares = ((y - mean).square() + variance) / self.noise
        return -0.5 * (squares + self.log_noise + math.log(2 * math.pi))


class _CoupledColumns(Gaussian):
    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        coupled = 0.1 * variance.expand_as(mean).prod(-1)
        return super().expected_log_prob(y, mean, variance) + coupled


class _Downcast(Gaussian):
    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return super().expected_log_prob(y, mean, variance).float()


class _Detached(Gaussian):
    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return super().expected_log_prob(y, mean, variance.detach())


class _Random(Gaussian):
    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        value = super().expected_log_prob(y, mean, variance)
        return value + 1e-12 * torch.rand_like(value)


class _NoNoise(torch.nn.Module):
    pass


@pytest.mark.parametrize(
    ("likelihood", "violation"),
    [
        (_PlugIn(), "not the expectation of log p"),
        (_NotNormalised(), "has no mass 1"),
        (_Shifted(), "the mean of a target is not the value of the function"),
        (_StandardDeviation(), r"predictive_variance\(0\) is not that of"),
        (_NoiseOnly(), "does not grow with the variance of the function"),
        (_ColumnsApart(2), r"has shape \(3, 5, 2\) instead of \(3, 5\)"),
        (_CoupledColumns(2), "not a sum over output columns"),
        (_Downcast(), "turns torch.float64 into torch.float32"),
        (_Detached(), "differs from finite differences"),
        (_Random(), "two answers to one question"),
        (_NoNoise(), "log_noise is not a parameter"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else "",
)
def test_contract_notices(likelihood: torch.nn.Module, violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        check_likelihood(likelihood)
