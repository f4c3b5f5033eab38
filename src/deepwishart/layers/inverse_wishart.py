r"""The deep inverse Wishart process layer (Aitchison et al., 2021), a baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deepwishart import linalg
from deepwishart.distributions import InverseWishart
from deepwishart.kernels import Kernel
from deepwishart.layers.base import (
    GramInducing,
    GramRows,
    Inducing,
    Layer,
    Rows,
    kernel_inducing,
    kernel_rows,
)
from deepwishart.noise import Noise

__all__ = ["InverseWishartLayer"]


@dataclass(frozen=True)
class InverseWishartState:
    r"""Prior factor of :math:`K_{ii}`, root :math:`T` with :math:`G_{ii} = T T^\top`."""

    inputs: Inducing
    factor: linalg.Factor
    root: Tensor
    outputs: GramInducing


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
        num_inducing: number of inducing points P.
        generator: randomness of the initial :math:`V`, which :meth:`start_from` replaces.
        degrees: initial :math:`\delta`, learned; large values tie :math:`G` to :math:`K`.
        extra_degrees: initial :math:`\gamma`, learned.
        name: how errors call this layer.
        jitter: relative jitter on :math:`K_{ii}`.
        dtype: of the parameters.

    >>> from deepwishart.kernels import SquaredExponential
    >>> generator = torch.Generator().manual_seed(0)
    >>> layer = InverseWishartLayer(SquaredExponential(), num_inducing=5, generator=generator)
    >>> points = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    >>> state, log_ratio = layer.sample_inducing(points, Noise(10, generator))
    >>> state.outputs.gram.shape, log_ratio.shape
    (torch.Size([10, 5, 5]), torch.Size([10]))
    """

    def __init__(
        self,
        kernel: Kernel,
        num_inducing: int,
        *,
        generator: torch.Generator,
        degrees: float = 10.0,
        extra_degrees: float = 10.0,
        name: str = "layer 1",
        jitter: float = 1e-6,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(name, jitter)
        self.kernel = kernel
        self.num_inducing = num_inducing
        self.log_degrees = nn.Parameter(torch.tensor(math.log(degrees), dtype=dtype))
        self.log_extra_degrees = nn.Parameter(torch.tensor(math.log(extra_degrees), dtype=dtype))
        standard = torch.randn(num_inducing, num_inducing, generator=generator, dtype=dtype)
        self.scale_root = nn.Parameter(standard / math.sqrt(num_inducing))

    @torch.no_grad()
    def start_from(self, inducing: Inducing, features: Tensor) -> GramInducing:
        r"""Start at the prior's mean: :math:`V V^\top = \gamma K` gives
        :math:`\mathbb E_Q[G] = K`. ``features`` play no part, a Gram matrix of full rank has
        none."""
        kernel = kernel_inducing(self.kernel, inducing, self.jitter)
        lower = linalg.cholesky(kernel, what=f"the kernel matrix of {self.name}")
        self.scale_root.copy_(lower * (0.5 * self.log_extra_degrees).exp())
        return GramInducing(kernel)

    def sample_inducing(
        self, inducing: Inducing, noise: Noise
    ) -> tuple[InverseWishartState, Tensor]:
        kernel = kernel_inducing(self.kernel, inducing, self.jitter)
        prior = linalg.factor(kernel, what=f"the kernel matrix of {self.name}")
        delta, size = self.log_degrees.exp(), self.num_inducing
        posterior = InverseWishart(
            delta + size + 1 + self.log_extra_degrees.exp(),
            scale_tril=linalg.cholesky(
                delta * kernel + self.scale_root @ self.scale_root.mT,
                what=f"the posterior scale of {self.name}",
            ),
            validate_args=False,
        )
        shape = (noise.num_samples,) if kernel.ndim == 2 else ()
        root, inverse_root, log_q = posterior.rsample_root_with_log_prob(
            shape, generator=noise.generator
        )
        log_p = InverseWishart(
            delta + size + 1, scale_tril=prior.lower * delta.sqrt(), validate_args=False
        ).log_prob_inverse_root(inverse_root)
        gram = root @ root.mT
        return InverseWishartState(inducing, prior, root, GramInducing(gram)), log_p - log_q

    def sample_rows(
        self, state: InverseWishartState, rows: Rows, noise: Noise, joint: bool = False
    ) -> GramRows:
        cross, own = kernel_rows(self.kernel, state.inputs, rows, joint)
        projected = state.factor.inverse @ cross
        delta, size = self.log_degrees.exp(), self.num_inducing
        if joint:
            return self._joint_rows(state, projected, own, noise)
        floor = torch.finfo(own.dtype).eps * own.detach()
        conditional = torch.maximum(own - projected.square().sum(-2), floor)
        num_rows = conditional.shape[-1]
        schur = 0.5 * delta * conditional / noise.row_gamma(0.5 * (delta + size + 2), num_rows)
        standard = noise.row_normal(num_rows, size).mT
        whitened = projected + (schur / delta).sqrt().unsqueeze(-2) * standard
        z = (state.root.mT @ state.factor.inverse.mT) @ whitened  # T^T G^-1 g_it
        return GramRows(state.root @ z, schur + z.square().sum(-2))

    def _joint_rows(
        self, state: InverseWishartState, projected: Tensor, square: Tensor, noise: Noise
    ) -> GramRows:
        """All rows at once: their Schur complement is inverse Wishart."""
        delta, size = self.log_degrees.exp(), self.num_inducing
        num_rows = square.shape[-1]
        lower = linalg.cholesky(
            delta * (square - projected.mT @ projected),
            jitter=self.jitter,
            what=f"the conditional covariance of {self.name}",
        )
        schur = InverseWishart(delta + size + num_rows + 1, scale_tril=lower, validate_args=False)
        shape = (noise.num_samples,) if lower.ndim == 2 else ()
        root = schur.rsample_root(shape, generator=noise.generator)
        whitened = projected + noise.normal(size, num_rows) @ root.mT / delta.sqrt()
        z = (state.root.mT @ state.factor.inverse.mT) @ whitened
        return GramRows(state.root @ z, root @ root.mT + z.mT @ z)

    def prior(self, kernel_matrix: Tensor) -> InverseWishart:
        delta = self.log_degrees.exp().detach()
        lower = linalg.cholesky(
            delta * kernel_matrix, jitter=self.jitter, what=f"the prior of {self.name}"
        )
        return InverseWishart(delta + kernel_matrix.shape[-1] + 1, scale_tril=lower)
