"""Samples from a model's prior, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from deepwishart._support.arguments import whole_number
from deepwishart.distributions import GramDistribution, MatrixNormal
from deepwishart.kernels import GramInducing, Points
from deepwishart.layers.base import KernelPart

if TYPE_CHECKING:
    from deepwishart.model import DeepKernelProcess

__all__ = ["Prior", "PriorSample", "sample_prior"]


class PriorSample(NamedTuple):
    """Gram matrices ``(S, N, N)`` of the hidden layers, in order, and outputs ``(S, N, D)``."""

    grams: list[Tensor]
    outputs: Tensor


@torch.no_grad()
def sample_prior(
    model: DeepKernelProcess, X: Tensor, num_samples: int, generator: torch.Generator | None = None
) -> PriorSample:
    r"""Sample :math:`P(G_1, \dots, G_L, f \mid X)` (paper, Eq. def:deepiw), inducing points apart.

    A deep Wishart process draws Gram matrices, a deep GP draws features and reports their Gram
    matrices :math:`F F^\top`; the two agree in distribution.

    Args:
        model: any process; of ``dsvi`` models the mean function is left out.
        X: inputs ``(N, num_features)``.
        num_samples: number of draws S.
        generator: randomness; PyTorch's default generator if ``None``.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 6, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> sample = sample_prior(model, X, num_samples=4)
    >>> sample.grams[0].shape, sample.outputs.shape
    (torch.Size([4, 6, 6]), torch.Size([4, 6, 1]))
    """
    whole_number("num_samples", num_samples)
    inputs = model.scale_inputs(model.check_inputs(X)).expand(num_samples, -1, -1)
    points: Points = inputs
    grams = []
    for layer in model.hidden:
        law = _law(layer, points)
        if isinstance(law, GramDistribution) and not model.joins_inputs:
            grams.append(law.rsample(generator=generator))
            points = GramInducing(grams[-1])
            continue
        # Inputs are joined to features: those of a Gram matrix may be any root of it.
        root = law.rsample if isinstance(law, MatrixNormal) else law.rsample_root
        features = root(generator=generator)
        grams.append(features @ features.mT)
        points = model.join(features, inputs)
    laws = [_law(prior, points) for prior in model.output.priors]
    return PriorSample(grams, torch.cat([law.rsample(generator=generator) for law in laws], dim=-1))


def _law(layer: KernelPart, points: Points) -> MatrixNormal | GramDistribution:
    law = layer.prior(layer.kernel.square(points))
    if not isinstance(law, MatrixNormal | GramDistribution):
        raise TypeError(f"{layer.name} has a prior over neither features nor Gram matrices.")
    return law


@dataclass(frozen=True)
class Prior:
    r"""What a model expects of a row before it has seen any: :math:`f \sim \mathcal N(0, k(G_L))`
    with its hyperparameters, in the place of a posterior behind a
    :class:`~deepwishart.predict.Predictive`.

    Args:
        model: any process.
        num_samples: samples of the hidden layers; of stationary kernels one is as good as many.
        seed: of their randomness, the same for every row, so that answers do not depend on which
            rows are asked for together.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 6, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> mean, variance = Prior(model, num_samples=3).latents(X)
    >>> mean.abs().max().item(), variance.shape
    (0.0, torch.Size([3, 6, 1]))
    """

    model: DeepKernelProcess
    num_samples: int
    seed: int = 0

    @torch.no_grad()
    def latents(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the latent functions at ``X``, ``(S, N, num_latents)`` each."""
        norms = self.model.scale_inputs(X).square().sum(-1).expand(self.num_samples, -1)
        if self.model.depth > 1:
            norms = torch.stack([self._last_norms(row) for row in X.split(1)], dim=1)
        variances = [
            prior.kernel.on_diagonal(norms).unsqueeze(-1).expand(-1, -1, prior.width)
            for prior in self.model.output.priors
        ]
        variance = torch.cat(variances, dim=-1)
        return torch.zeros_like(variance), variance

    def _last_norms(self, row: Tensor) -> Tensor:
        generator = torch.Generator(self.model.device).manual_seed(self.seed)
        sample = sample_prior(self.model, row, self.num_samples, generator)
        return sample.grams[-1].reshape(self.num_samples)
