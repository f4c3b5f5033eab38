r"""The deep inverse Wishart process layer (Aitchison et al., 2021), a baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from deepwishart._support.parameters import Declaration, Declarations
from deepwishart.distributions import InverseWishart
from deepwishart.kernels import Kernel
from deepwishart.kernels.points import GramInducing, GramRows, Inducing, Rows
from deepwishart.layers.base import Layer, LayerSample
from deepwishart.numerics import linalg
from deepwishart.numerics.gaussian import formed
from deepwishart.random import Randomness, RowRandomness


@dataclass(eq=False)
class InverseWishartSample(LayerSample):
    r"""Prior factor of :math:`K_{ii} = L L^\top`, and the root :math:`T` with
    :math:`G_{ii} = T T^\top`."""

    layer: InverseWishartLayer
    inputs: Inducing
    factor: linalg.Factor
    root: Tensor
    log_ratio: Tensor

    @property
    def inducing(self) -> GramInducing:
        return GramInducing(self.root @ self.root.mT)

    def rows(self, rows: Rows, random: RowRandomness, joint: bool = False) -> GramRows:
        if joint:
            return self._joint_rows(rows, random)
        cross, own = self.layer.row_covariance(self.inputs, rows)
        projected = self.factor.inverse @ formed(cross)
        delta, size = self.layer.log_degrees.exp(), self.layer.width
        floor = torch.finfo(own.dtype).eps * own.detach()
        conditional = torch.maximum(own - projected.square().sum(-2), floor)
        num_rows = conditional.shape[-1]
        schur = 0.5 * delta * conditional / random.gamma(0.5 * (delta + size + 2), num_rows)
        standard = random.normal(num_rows, size).mT
        whitened = projected + (schur / delta).sqrt().unsqueeze(-2) * standard
        z = (self.root.mT @ self.factor.inverse.mT) @ whitened  # T^T G^-1 g_it
        return GramRows(self.root @ z, schur + z.square().sum(-2))

    def _joint_rows(self, rows: Rows, random: RowRandomness) -> GramRows:
        """All rows at once: their Schur complement is inverse Wishart."""
        cross, square = self.layer.joint_covariance(self.inputs, rows)
        projected = self.factor.inverse @ cross
        delta, size = self.layer.log_degrees.exp(), self.layer.width
        num_rows = square.shape[-1]
        lower = linalg.cholesky(
            delta * (square - projected.mT @ projected),
            jitter=self.layer.jitter,
            relative_to=delta * square,
            what=f"the conditional covariance of {self.layer.name}",
        )
        schur = InverseWishart(delta + size + num_rows + 1, scale_tril=lower, validate_args=False)
        shape = (random.num_samples,) if lower.ndim == 2 else ()
        root = schur.rsample_root(shape, generator=random.generator())
        standard = random.normal(num_rows, size).mT
        whitened = projected + standard @ root.mT / delta.sqrt()
        z = (self.root.mT @ self.factor.inverse.mT) @ whitened
        return GramRows(self.root @ z, root @ root.mT + z.mT @ z)


class InverseWishartLayer(Layer):
    r""":math:`P(G_\ell \mid G_{\ell-1}) = \mathcal W^{-1}(\delta K, \delta + P + 1)`, posterior

    .. math:: Q(G_\ell \mid G_{\ell-1}) = \mathcal W^{-1}(\delta K + V V^\top,
              \delta + P + 1 + \gamma).

    Given the inducing points one more row is sampled exactly: its Schur complement is

    .. math:: g_{tt \cdot i} \sim \text{Inv-Gamma}\big(\tfrac12(\delta + P + 2),
              \tfrac12 \delta k_{tt \cdot i}\big), \qquad
              G_{ii}^{-1} g_{it} \sim
              \mathcal N(K_{ii}^{-1} k_{it}, g_{tt\cdot i} (\delta K_{ii})^{-1})

    whatever the batch size, because the prior is consistent under marginalisation.

    Args:
        kernel: kernel applied to the previous layer.
        num_inducing: number of inducing points P, which is the rank of :math:`G_{ii}`, ``width``.
        degrees: initial :math:`\delta`, learned; large values tie :math:`G` to :math:`K`.
        extra_degrees: initial :math:`\gamma`, learned.
        dtype: of the parameters.
        **options: ``name`` and ``jitter`` of :class:`~deepwishart.layers.Layer`.

    >>> from deepwishart.kernels import SquaredExponential
    >>> generator = torch.Generator().manual_seed(0)
    >>> layer = InverseWishartLayer(SquaredExponential(), num_inducing=5)
    >>> points = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    >>> sample = layer.sample(points, Randomness(10, generator))
    >>> sample.inducing.gram.shape, sample.log_ratio.shape
    (torch.Size([10, 5, 5]), torch.Size([10]))
    """

    declares: ClassVar[Declarations] = {"learned_root": Declaration("scale")}

    def __init__(
        self,
        kernel: Kernel,
        num_inducing: int,
        *,
        degrees: float = 10.0,
        extra_degrees: float = 10.0,
        dtype: torch.dtype = torch.float64,
        **options: Any,
    ) -> None:
        super().__init__(kernel, num_inducing, variance=1.0, **options)
        self.log_degrees = nn.Parameter(torch.tensor(math.log(degrees), dtype=dtype))
        self.log_extra_degrees = nn.Parameter(torch.tensor(math.log(extra_degrees), dtype=dtype))
        self.learned_root = nn.Parameter(torch.eye(num_inducing, dtype=dtype))

    @torch.no_grad()
    def start_from(self, inducing: Inducing, features: Tensor, noise: float = 0.0) -> GramInducing:
        r"""Start at the prior's mean: :math:`V V^\top = \gamma K` gives
        :math:`\mathbb E_Q[G] = K`. ``features`` and ``noise`` play no part: a Gram matrix of
        full rank has no features."""
        kernel = self.covariance(inducing)
        lower = linalg.cholesky(kernel, what=f"the kernel matrix of {self.name}")
        self.learned_root.copy_(lower * (0.5 * self.log_extra_degrees).exp())
        return GramInducing(kernel)

    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> InverseWishartSample:
        kernel = self.covariance(inducing)
        factor = linalg.factor(kernel, what=f"the kernel matrix of {self.name}")
        delta, size = self.log_degrees.exp(), self.width
        learned = delta * kernel + self.learned_root @ self.learned_root.mT
        posterior = InverseWishart(
            delta + size + 1 + self.log_extra_degrees.exp(),
            scale_tril=linalg.factor(learned, what=f"the posterior scale of {self.name}").lower,
            validate_args=False,
        )
        shape = (random.num_samples,) if kernel.ndim == 2 else ()
        root, inverse_root, log_q = posterior.rsample_root_with_log_prob(
            shape, generator=random.generator
        )
        log_p = InverseWishart(
            delta + size + 1, scale_tril=factor.lower * delta.sqrt(), validate_args=False
        ).log_prob_inverse_root(inverse_root)
        return InverseWishartSample(self, inducing, factor, root, log_p - log_q)

    def prior(self, kernel_matrix: Tensor) -> InverseWishart:
        delta = self.log_degrees.exp().detach()
        lower = linalg.cholesky(
            delta * kernel_matrix, jitter=self.jitter, what=f"the prior of {self.name}"
        )
        return InverseWishart(delta + kernel_matrix.shape[-1] + 1, scale_tril=lower)
