"""The Gaussian likelihood and others fulfil the contract, and broken relatives of them do not."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    Gamma,
    Laplace,
    MultivariateNormal,
    Normal,
    Poisson,
    StudentT,
)

from deepwishart import likelihoods
from deepwishart.likelihoods import (
    Gaussian,
    HeteroscedasticGaussian,
    HeteroscedasticStudentT,
    Likelihood,
    Mixture,
    NegativeBinomial,
)
from deepwishart.testing import check_likelihood
from tests.sabotage import broken

PRECISIONS = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["64", "32"])


def _started(likelihood: Likelihood, *labels: float) -> Likelihood:
    """A likelihood whose offset knows how frequent classes are."""
    likelihood.start_from(torch.tensor(labels)[:, None])
    return likelihood


LIKELIHOODS = {
    "gaussian": Gaussian(1),
    "gaussian, narrow": Gaussian(1, 1e-3),
    "gaussian, three targets": Gaussian(3, 2.0),
    "heteroscedastic": HeteroscedasticGaussian(1, noise=0.3),
    "heteroscedastic, two targets": HeteroscedasticGaussian(2),
    "heteroscedastic t": HeteroscedasticStudentT(1, noise=0.3),
    "heteroscedastic t, two targets": HeteroscedasticStudentT(2, degrees=3.0),
    "student t": likelihoods.StudentT(1),
    "student t, nearly gaussian": likelihoods.StudentT(2, scale=1.0, degrees=500.0),
    "poisson": likelihoods.Poisson(1),
    "poisson, two targets": likelihoods.Poisson(2),
    "negative binomial": NegativeBinomial(1),
    "negative binomial, two targets": NegativeBinomial(2, dispersion=2.0),
    "negative binomial, nearly poisson": NegativeBinomial(1, dispersion=1e-6),
    "probit": likelihoods.Bernoulli(),
    "probit, two targets": likelihoods.Bernoulli(2),
    "probit, offset": _started(likelihoods.Bernoulli(), 0.0, 1.0, 1.0),
    "softmax": _started(likelihoods.Categorical(3), 0.0, 0.0, 1.0, 2.0),
}


@PRECISIONS
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_contract(name: str, dtype: torch.dtype) -> None:
    check_likelihood(LIKELIHOODS[name], dtype=dtype)


class Of(Likelihood):
    """Targets of a law."""

    def __init__(self, law: Callable[[Tensor], Distribution], *sizes: int) -> None:
        super().__init__(*sizes)
        self.law = law

    def distribution(self, latents: Tensor) -> Distribution:
        return self.law(latents)


class Kinked(Of):
    num_nodes = 128


OTHERS = {
    "durations": lambda *sizes: Of(lambda f: Gamma(2.0, (-f).exp()), *sizes),
    "kinked": lambda *sizes: Kinked(lambda f: Laplace(f, 0.5), *sizes),
    "classes without a mean": lambda *sizes: Of(
        lambda f: Categorical(logits=torch.stack([f, torch.zeros_like(f)], dim=-1)), *sizes
    ),
    "counts": lambda *sizes: Of(lambda f: Poisson(f.exp()), *sizes),
    "logistic": lambda *sizes: Of(lambda f: Bernoulli(logits=f), *sizes),
    "heavy tails": lambda *sizes: Of(lambda f: StudentT(4.0, f, 0.6), *sizes),
}


@PRECISIONS
@pytest.mark.parametrize("num_outputs", [1, 2])
@pytest.mark.parametrize("name", OTHERS)
def test_contract_of_others(name: str, num_outputs: int, dtype: torch.dtype) -> None:
    check_likelihood(OTHERS[name](num_outputs), dtype=dtype)


@PRECISIONS
@pytest.mark.parametrize(
    "kind",
    [
        HeteroscedasticGaussian,
        HeteroscedasticStudentT,
        NegativeBinomial,
        likelihoods.Poisson,
        likelihoods.StudentT,
    ],
)
@pytest.mark.parametrize("size", [-1e4, -150.0, 150.0, 1e4])
def test_extreme_latents(kind: type[Likelihood], dtype: torch.dtype, size: float) -> None:
    """Where the contract does not go: nothing overflows for far outliers and large counts."""
    likelihood = kind(1).to(dtype)
    mean = torch.full((2, likelihood.num_latents), size, dtype=dtype, requires_grad=True)
    variance = torch.full_like(mean, 100.0).detach().requires_grad_()
    y = torch.tensor([[0.0], [1e6]], dtype=dtype)
    value = likelihood.expected_log_prob(y, mean, variance)
    gradients = torch.autograd.grad(value.sum(), [mean, variance, *likelihood.parameters()])
    assert all(bool(each.isfinite().all()) for each in (value, *gradients))
    components, _ = likelihood.predictive(mean.detach(), variance.detach())
    assert all(bool(v.isfinite().all()) for v in (components.stddev, components.log_prob(y)))


def test_columns_may_differ_in_noise() -> None:
    likelihood = Gaussian(2)
    with torch.no_grad():
        likelihood.log_noise.copy_(torch.tensor([-3.0, 0.5]))
    check_likelihood(likelihood)


def test_two_latent_columns_need_methods_of_their_own() -> None:
    likelihood, zeros = OTHERS["counts"](1, 2), torch.zeros(3, 2)
    for call in (
        lambda: likelihood.expected_log_prob(torch.zeros(3, 1), zeros, zeros),
        lambda: likelihood.predictive(zeros, zeros),
    ):
        with pytest.raises(NotImplementedError, match="2 latent columns for 1 targets"):
            call()


# ---- what is noticed ------------------------------------------------------------------------


def changed(num_outputs: int = 1, noise: float = 0.1, **changes: Callable[..., Any]) -> Gaussian:
    return broken(Gaussian, **changes)(num_outputs, noise)


def law(**changes: Callable[..., Any]) -> Gaussian:
    """Noise with another law than the normal one that its samples, or its density, are of."""
    kind = broken(Normal, **changes)
    return changed(distribution=lambda self, parent, f: kind(f, self.noise.sqrt().expand_as(f)))


def _without_variance(self: Gaussian, parent: Any, y: Tensor, mean: Tensor, v: Tensor) -> Tensor:
    return parent(y, mean, 0.0 * v)


def _value(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """A change of what a method answers."""
    return lambda self, parent, *arguments: change(parent(*arguments))


def _columns_apart(self: Gaussian, parent: Any, y: Tensor, mean: Tensor, v: Tensor) -> Tensor:
    squares = ((y - mean).square() + v) / self.noise
    return -0.5 * (squares + self.log_noise + math.log(2 * math.pi))


def _coupled_columns(self: Gaussian, parent: Any, y: Tensor, mean: Tensor, v: Tensor) -> Tensor:
    """Right for one column with variance at a time, and wrong for two."""
    return parent(y, mean, v) + 0.1 * v.expand_as(mean).prod(-1)


def _adds_deviations(self: Gaussian, parent: Any, mean: Tensor, variance: Tensor) -> Mixture:
    deviation = variance.sqrt() + self.noise.sqrt()
    return Mixture(Normal(mean[None], deviation.expand_as(mean)[None]), mean.new_zeros(1))


class _OtherMean(Gaussian):
    def distribution(self, latents: Tensor) -> Normal:
        class Stated(Normal):
            @property
            def mean(self) -> Tensor:
                return self.loc + 0.1

        return Stated(latents, self.noise.sqrt().expand_as(latents))


class _AboveItsBound(broken(Gaussian, expected_log_prob=_without_variance)):  # type: ignore[misc]
    exact_expectation = False


@pytest.mark.parametrize(
    ("likelihood", "violation"),
    [
        (
            changed(expected_log_prob=_without_variance),
            "expected_log_prob is not the expectation of log p",
        ),
        (_AboveItsBound(), "is not the expectation of log p.*, nor below it"),
        (
            changed(expected_log_prob=lambda self, parent, y, m, v: parent(y, m + 0.01, v)),
            "expected_log_prob without variance is not the log density",
        ),
        (
            law(log_prob=_value(lambda log: log + 0.5 * math.log(2 * math.pi))),
            "distribution has no mass 1",
        ),
        (_OtherMean(), "the mean of distribution is not that of its density"),
        (law(sample=_value(lambda y: y + 0.1)), "samples of distribution have another mean"),
        (
            law(cdf=lambda self, parent, value: parent(value + 0.1)),
            "the cdf of distribution is not that of its density",
        ),
        (
            changed(predictive=_adds_deviations),
            "predictive is not the expectation of p",
        ),
        (
            changed(predictive=lambda self, parent, m, v: parent(m, 0.0 * v)),
            "predictive is not the expectation of p",
        ),
        (
            changed(predictive=_value(lambda m: m._replace(log_weights=m.log_weights + 0.1))),
            "weights of predictive do not add up to one",
        ),
        (changed(2, expected_log_prob=_columns_apart), r"shape \(3, 5, 2\) instead of \(3, 5\)"),
        (
            changed(
                2,
                distribution=lambda self, parent, f: MultivariateNormal(f, torch.diag(self.noise)),
            ),
            r"event shape \(2,\) instead of \(3, 5, 2\) and \(\)",
        ),
        (
            changed(2, 1.0, expected_log_prob=_coupled_columns),
            "expected_log_prob is not the expectation of log p",
        ),
        (
            changed(expected_log_prob=_value(lambda log: log.float())),
            "turns torch.float64 into torch.float32",
        ),
        (
            changed(expected_log_prob=lambda self, parent, y, m, v: parent(y, m, v.detach())),
            "differs from finite differences",
        ),
        (
            changed(expected_log_prob=_value(lambda log: log + 1e-12 * torch.rand_like(log))),
            "two answers to one question",
        ),
        (
            Of(lambda f: Normal(f, (2.0 * f.square()).exp())),
            "expected_log_prob is not finite where latents are -10.0",
        ),
        (
            changed(initial_latents=lambda self, parent, y: y.log()),
            "initial_latents is not finite",
        ),
        (nn.Linear(1, 1), "it is no likelihoods.Likelihood"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_contract_notices(likelihood: Likelihood, violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        check_likelihood(likelihood)
