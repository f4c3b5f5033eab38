"""The Gaussian likelihood and others fulfil the contract, and broken relatives of them do not."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Gamma, Laplace, MultivariateNormal, Normal

from deepwishart.likelihoods import Gaussian, Likelihood, Mixture
from deepwishart.testing import check_likelihood

PRECISIONS = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["64", "32"])


@PRECISIONS
@pytest.mark.parametrize(("num_outputs", "noise"), [(1, 0.1), (1, 1e-3), (3, 2.0)])
def test_contract(num_outputs: int, noise: float, dtype: torch.dtype) -> None:
    check_likelihood(Gaussian(num_outputs, noise), dtype=dtype)


class _Duration(Likelihood):
    def distribution(self, latents: Tensor) -> Gamma:
        return Gamma(2.0, (-latents).exp())


class _Kinked(Likelihood):
    num_nodes = 128

    def distribution(self, latents: Tensor) -> Laplace:
        return Laplace(latents, 0.5)


class _Classes(Likelihood):
    """Two classes, numbered, without a mean."""

    def distribution(self, latents: Tensor) -> Categorical:
        return Categorical(logits=torch.stack([latents, torch.zeros_like(latents)], dim=-1))


OTHERS = {"positive": _Duration, "with a kink": _Kinked, "classes": _Classes}


@PRECISIONS
@pytest.mark.parametrize("num_outputs", [1, 2])
@pytest.mark.parametrize("name", OTHERS)
def test_contract_of_others(name: str, num_outputs: int, dtype: torch.dtype) -> None:
    check_likelihood(OTHERS[name](num_outputs), dtype=dtype)


@PRECISIONS
@pytest.mark.parametrize("num_outputs", [1, 2])
def test_contract_of_examples(example, num_outputs: int, dtype: torch.dtype) -> None:
    check_likelihood(example(num_outputs), dtype=dtype)


def test_columns_may_differ_in_noise() -> None:
    likelihood = Gaussian(2, dtype=torch.float64)
    with torch.no_grad():
        likelihood.log_noise.copy_(torch.tensor([-3.0, 0.5]))
    check_likelihood(likelihood)


def test_the_check_leaves_the_likelihood_and_the_global_generator_alone() -> None:
    likelihood = Gaussian(2, dtype=torch.float32)
    state = torch.random.get_rng_state()
    check_likelihood(likelihood, dtype=torch.float64)
    assert likelihood.log_noise.dtype == torch.float32
    assert likelihood.log_noise.grad is None
    assert torch.equal(state, torch.random.get_rng_state())


def test_quadrature_is_the_closed_form_where_there_is_one() -> None:
    """The base class's two methods, for the one likelihood whose answers are known."""
    exact, y = Gaussian(2, noise=0.3), torch.tensor([[0.3, -1.0]], dtype=torch.float64)
    mean, variance = torch.zeros_like(y), torch.tensor([[0.5, 0.01]], dtype=torch.float64)
    torch.testing.assert_close(
        Likelihood.expected_log_prob(exact, y, mean, variance),
        exact.expected_log_prob(y, mean, variance),
        rtol=1e-10,
        atol=1e-10,
    )
    mixture = Likelihood.predictive(exact, mean, variance)
    density = (mixture.components.log_prob(y) + mixture.log_weights[:, None, None]).logsumexp(0)
    expected = Normal(mean, (variance + 0.3).sqrt()).log_prob(y)
    torch.testing.assert_close(density, expected, rtol=1e-4, atol=1e-4)


class _Bound(Gaussian):
    exact_expectation = False

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        exact = super().expected_log_prob(y, mean, variance)
        return exact - 0.1 * variance.expand_as(mean).sum(-1)


def test_a_lower_bound_will_do_where_it_is_said_to_be_one() -> None:
    check_likelihood(_Bound(2))


def test_two_latent_columns_need_methods_of_their_own() -> None:
    likelihood, zeros = _Kinked(1, num_latents=2), torch.zeros(3, 2)
    for call in (
        lambda: likelihood.expected_log_prob(torch.zeros(3, 1), zeros, zeros),
        lambda: likelihood.predictive(zeros, zeros),
    ):
        with pytest.raises(NotImplementedError, match="2 latent columns for 1 targets"):
            call()


# ---- what is noticed ------------------------------------------------------------------------


class _PlugIn(Gaussian):
    """The density at the mean, not its expectation."""

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return super().expected_log_prob(y, mean, 0.0 * variance)


class _AboveItsBound(_PlugIn):
    exact_expectation = False


class _Shifted(Gaussian):
    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return super().expected_log_prob(y, mean + 0.01, variance)


class _NoMass(Gaussian):
    def distribution(self, latents: Tensor) -> Normal:
        class Heavier(Normal):
            def log_prob(self, value: Tensor) -> Tensor:
                return super().log_prob(value) + 0.5 * math.log(2 * math.pi)

        return Heavier(latents, self.noise.sqrt().expand_as(latents))


class _OtherMean(Gaussian):
    def distribution(self, latents: Tensor) -> Normal:
        class Stated(Normal):
            @property
            def mean(self) -> Tensor:
                return self.loc + 0.1

        return Stated(latents, self.noise.sqrt().expand_as(latents))


class _OtherSamples(Gaussian):
    def distribution(self, latents: Tensor) -> Normal:
        class Moved(Normal):
            def sample(self, sample_shape=torch.Size()) -> Tensor:  # noqa: B008
                return super().sample(sample_shape) + 0.1

        return Moved(latents, self.noise.sqrt().expand_as(latents))


class _OtherCdf(Gaussian):
    def distribution(self, latents: Tensor) -> Normal:
        class Other(Normal):
            def cdf(self, value: Tensor) -> Tensor:
                return super().cdf(value + 0.1)

        return Other(latents, self.noise.sqrt().expand_as(latents))


class _StandardDeviation(Gaussian):
    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        deviation = variance.sqrt() + self.noise.sqrt()
        return Mixture(Normal(mean[None], deviation.expand_as(mean)[None]), mean.new_zeros(1))


class _NoiseOnly(Gaussian):
    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        return super().predictive(mean, 0.0 * variance)


class _Unnormalised(Gaussian):
    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        mixture = super().predictive(mean, variance)
        return mixture._replace(log_weights=mixture.log_weights + 0.1)


class _ColumnsApart(Gaussian):
    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        squares = ((y - mean).square() + variance) / self.noise
        return -0.5 * (squares + self.log_noise + math.log(2 * math.pi))


class _TargetsTogether(Gaussian):
    def distribution(self, latents: Tensor) -> MultivariateNormal:
        return MultivariateNormal(latents, torch.diag(self.noise))


class _CoupledColumns(Gaussian):
    """Right for one column with variance at a time, and wrong for two."""

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


class _Overflows(Likelihood):
    def distribution(self, latents: Tensor) -> Normal:
        return Normal(latents, (2.0 * latents.square()).exp())


class _BadStart(Gaussian):
    def initial_latents(self, y: Tensor) -> Tensor:
        return y.log()


class _NoLikelihood(nn.Module):
    pass


@pytest.mark.parametrize(
    ("likelihood", "violation"),
    [
        (_PlugIn(), "expected_log_prob is not the expectation of log p"),
        (_AboveItsBound(), "is not the expectation of log p.*, nor below it"),
        (_Shifted(), "expected_log_prob without variance is not the log density"),
        (_NoMass(), "distribution has no mass 1"),
        (_OtherMean(), "the mean of distribution is not that of its density"),
        (_OtherSamples(), "samples of distribution have another mean"),
        (_OtherCdf(), "the cdf of distribution is not that of its density"),
        (_StandardDeviation(), "the mean square of predictive is not|predictive is not the exp"),
        (_NoiseOnly(), "predictive is not the expectation of p"),
        (_Unnormalised(), "weights of predictive do not add up to one"),
        (_ColumnsApart(2), r"has shape \(3, 5, 2\) instead of \(3, 5\)"),
        (_TargetsTogether(2), r"event shape \(2,\) instead of \(3, 5, 2\) and \(\)"),
        (_CoupledColumns(2, noise=1.0), "expected_log_prob is not the expectation of log p"),
        (_Downcast(), "turns torch.float64 into torch.float32"),
        (_Detached(), "differs from finite differences"),
        (_Random(), "two answers to one question"),
        (_Overflows(), "expected_log_prob is not finite where latents are -10.0"),
        (_BadStart(), "initial_latents is not finite"),
        (_NoLikelihood(), "it is no likelihoods.Likelihood"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else "",
)
def test_contract_notices(likelihood: Likelihood, violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        check_likelihood(likelihood)
