r"""An output layer of several, for latent functions that have nothing in common but the layers
below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from deepwishart.kernels import Kernel
from deepwishart.layers.base import (
    GaussianSample,
    Inducing,
    JointMoments,
    KernelPart,
    OutputLayer,
    Rows,
)
from deepwishart.layers.gaussian import InducingOutputSample
from deepwishart.random import Randomness


class StackedOutputLayer(OutputLayer):
    r"""Output layers side by side, :math:`q(u) = \prod_g q_g(u_g)`, each with a kernel and a
    posterior covariance of its own; their columns follow each other.

    A likelihood asks for it with :attr:`~deepwishart.likelihoods.Likelihood.latent_groups`: under
    one covariance, a noise that the data hardly know about would have to be as certain as the
    function.

    Args:
        parts: output layers whose posteriors are fixed by their inducing points.

    >>> from deepwishart.kernels import SquaredExponential
    >>> from deepwishart.layers import GPOutputLayer
    >>> x = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    >>> parts = [GPOutputLayer(SquaredExponential(), targets) for targets in (x.sin(), 0 * x)]
    >>> sample = StackedOutputLayer(parts).sample(x, Randomness(10))
    >>> [moment.shape for moment in sample.function.moments(x)]
    [torch.Size([5, 2]), torch.Size([5, 2])]
    """

    def __init__(self, parts: Sequence[OutputLayer]) -> None:
        width = sum(part.width for part in parts)
        super().__init__(width, name=parts[0].name, jitter=parts[0].jitter)
        self.parts = nn.ModuleList(parts)

    @property
    def outputs(self) -> list[OutputLayer]:
        """The parts, in order."""
        return [cast(OutputLayer, part) for part in self.parts]

    @property
    def priors(self) -> Sequence[KernelPart]:
        return [prior for part in self.outputs for prior in part.priors]

    @property
    def kernel(self) -> Kernel:
        """The kernel of the first columns."""
        return self.priors[0].kernel

    def start_from(self, inducing: Inducing, latents: Tensor, precision: float) -> None:
        widths = [part.width for part in self.outputs]
        for part, columns in zip(self.outputs, latents.split(widths, dim=-1), strict=True):
            part.start_from(inducing, columns, precision)

    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> InducingOutputSample:
        samples = [
            cast(InducingOutputSample, part.sample(inducing, random, integrate=integrate))
            for part in self.outputs
        ]
        ratio = torch.stack([sample.log_ratio for sample in samples]).sum(0)
        functions = tuple(sample.function for sample in samples)
        return InducingOutputSample(
            StackedSample(self, inducing, ratio, functions), samples[0].tight
        )


@dataclass(eq=False)
class StackedSample(GaussianSample):
    """The functions of all parts."""

    functions: tuple[GaussianSample, ...]

    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        moments = [each.moments(rows) for each in self.functions]
        variances = [variance.expand_as(mean) for mean, variance in moments]
        return torch.cat([mean for mean, _ in moments], dim=-1), torch.cat(variances, dim=-1)

    def unexplained(self, rows: Rows) -> Tensor:
        parts = []
        for each in self.functions:
            left = each.unexplained(rows)
            parts.append(left.expand(*left.shape[:-1], each.layer.width))
        return torch.cat(parts, dim=-1)

    def joint_moments(self, rows: Rows) -> JointMoments:
        moments = [each.joint_moments(rows) for each in self.functions]
        covariances = [
            each.covariance.expand(*each.covariance.shape[:-3], each.mean.shape[-1], -1, -1)
            for each in moments
        ]
        mean = torch.cat([each.mean for each in moments], dim=-1)
        return JointMoments(mean, torch.cat(covariances, dim=-3), moments[0].prior)
