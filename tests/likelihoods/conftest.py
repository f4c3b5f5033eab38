"""Likelihoods of all kinds: heavy tails, classes, counts, and two latent functions per target."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Normal, Poisson, StudentT

from deepwishart.likelihoods import Likelihood, Mixture


class HeavyTails(Likelihood):
    def __init__(self, num_outputs: int = 1) -> None:
        super().__init__(num_outputs)
        self.log_scale = nn.Parameter(torch.full((num_outputs,), -0.5))

    def distribution(self, latents: Tensor) -> StudentT:
        return StudentT(4.0, latents, self.log_scale.exp())


class TwoClasses(Likelihood):
    def distribution(self, latents: Tensor) -> Bernoulli:
        return Bernoulli(logits=latents)


class Counts(Likelihood):
    def distribution(self, latents: Tensor) -> Poisson:
        return Poisson(latents.exp())

    def initial_latents(self, y: Tensor) -> Tensor:
        return (y + 0.5).log()


class Heteroscedastic(Likelihood):
    r""":math:`y \sim \mathcal N(f, e^g)`: of the latents, the first half is :math:`f`."""

    def __init__(self, num_outputs: int = 1) -> None:
        super().__init__(num_outputs, num_latents=2 * num_outputs)

    def distribution(self, latents: Tensor) -> Normal:
        f, g = latents.chunk(2, dim=-1)
        return Normal(f, (0.5 * g).exp())

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        (f, g), (vf, vg) = (t.expand_as(mean).chunk(2, dim=-1) for t in (mean, variance))
        squares = ((y - f).square() + vf) * (0.5 * vg - g).exp()
        return -0.5 * (squares + g + math.log(2 * math.pi)).sum(-1)

    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        (f, g), (vf, vg) = (t.expand_as(mean).chunk(2, dim=-1) for t in (mean, variance))
        by_noise = TwoClasses(self.num_outputs)  # any likelihood with one latent per target
        latents, log_weights = by_noise._nodes(g, vg)
        return Mixture(Normal(f.expand_as(latents), (vf + latents.exp()).sqrt()), log_weights)


EXAMPLES = {
    "student t": HeavyTails,
    "bernoulli": TwoClasses,
    "poisson": Counts,
    "two latents": Heteroscedastic,
}


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> type[Likelihood]:
    return EXAMPLES[request.param]
