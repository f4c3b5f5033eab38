"""Two classes: the probability of the second is a squashed latent function."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Bernoulli as TorchBernoulli
from torch.nn.functional import logsigmoid

from deepwishart._support.choices import check_choice
from deepwishart.likelihoods.base import Mixture
from deepwishart.likelihoods.classes import ClassLikelihood

__all__ = ["Bernoulli"]

_FARTHEST = 1e15  # squares stay finite in single precision


class Bernoulli(ClassLikelihood):
    r""":math:`p(y = 1 \mid f) = \Phi(f + b)` (probit) or :math:`1 / (1 + e^{-f - b})` (logit), for
    targets 0 and 1.

    Expectations of :math:`\log p` are by quadrature. Under the probit link the prediction has a
    closed form, :math:`\int \Phi(f + b)\, \mathcal N(f; m, v)\, df = \Phi((m + b) / \sqrt{1 + v})`.

    Args:
        num_outputs: number of target columns.
        link: ``"probit"`` or ``"logit"``.
        **options: those of :class:`~deepwishart.likelihoods.ClassLikelihood`.

    >>> likelihood = Bernoulli(link="probit")
    >>> law, _ = likelihood.predictive(mean=torch.ones(3, 1), variance=torch.zeros(3, 1))
    >>> round(law.probs[0, 0].item(), 4)
    0.8413
    """

    num_nodes = 20  # exact to 1e-5 where the latent's variance is 4

    def __init__(self, num_outputs: int = 1, link: str = "probit", **options: Any) -> None:
        check_choice("link", link, _LINKS)
        super().__init__(2, num_outputs, num_outputs, **options)
        self.link = link

    def distribution(self, latents: Tensor) -> TorchBernoulli:
        return self._law(latents + self.offset)

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """By quadrature, with one evaluation of the link for each node, summed over columns."""
        latents, log_weights = self._nodes(mean + self.offset, variance)
        terms = _LINKS[self.link]((2.0 * y - 1.0) * latents)
        expected = torch.tensordot(log_weights.exp(), terms, dims=1)
        return (self.weights(y) * expected).sum(-1)

    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        if self.link == "logit":
            return super().predictive(mean, variance)
        average = (mean + self.offset) * (1.0 + variance).rsqrt()
        return Mixture(self._law(average.unsqueeze(0)), mean.new_zeros(1))

    def initial_latents(self, y: Tensor) -> Tensor:
        return 2.0 * y - 1.0

    def offset_for(self, shares: Tensor) -> Tensor:
        return torch.logit(shares[1]) if self.link == "logit" else torch.special.ndtri(shares[1])

    def _law(self, latents: Tensor) -> TorchBernoulli:
        log_link = _LINKS[self.link]
        logits = latents if self.link == "logit" else log_link(latents) - log_link(-latents)
        return TorchBernoulli(logits=logits, validate_args=False)


def log_ndtr(x: Tensor) -> Tensor:
    r""":math:`\log \Phi(x)` with a gradient that is right in both tails; PyTorch's own loses its
    digits from about -1,000 on in single precision.

    >>> x = torch.tensor([-1e4, 0.0, 40.0], requires_grad=True)
    >>> log_ndtr(x).sum().backward()
    >>> x.grad
    tensor([1.0000e+04, 7.9788e-01, 0.0000e+00])
    """
    x = x.clamp(-_FARTHEST, _FARTHEST)
    # Each formula sees only what it is good for: a branch not taken must not spoil the gradient.
    low, high = x.clamp_max(-1.0), x.clamp_min(-1.0)
    tail = torch.log(0.5 * torch.special.erfcx(-math.sqrt(0.5) * low)) - 0.5 * low.square()
    return torch.where(x < -1.0, tail, torch.log1p(-0.5 * torch.erfc(math.sqrt(0.5) * high)))


_LINKS = {"probit": log_ndtr, "logit": logsigmoid}
