r"""The deep Wishart process layer with the paper's approximate posterior."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from deepwishart import linalg
from deepwishart.distributions import GeneralisedSingularWishart, Wishart
from deepwishart.kernels import Kernel
from deepwishart.layers.base import GaussianRows, GaussianState, Inducing, kernel_inducing
from deepwishart.noise import Noise

__all__ = ["WishartLayer"]

_SMALLEST_START = 0.1  # smallest diagonal of a Bartlett factor to start from


class WishartLayer(GaussianRows):
    r""":math:`P(G_\ell \mid G_{\ell-1}) = \mathcal W(\tfrac1\nu K(G_{\ell-1}), \nu)`, posterior

    .. math:: Q(G_\ell \mid G_{\ell-1}) = \mathcal W\big((1-q)\tfrac1\nu K(G_{\ell-1}) + q V V^\top,
              \nu, \alpha, \beta, \mu, \sigma\big)

    (paper, Eq. def:ap). The sample is the root :math:`F_i = L A` with
    :math:`G_{ii} = F_i F_i^\top`, padded with zero columns when :math:`\nu > P`; rows follow the
    matrix normal of Eq. (Ft|Fi), which depends on :math:`F_i` only through :math:`G_{ii}`.

    Args:
        kernel: kernel applied to the previous layer.
        width: degrees of freedom :math:`\nu`.
        num_inducing: number of inducing points P.
        generator: randomness of the initial :math:`\mu` and :math:`V`, which
            :meth:`start_from` replaces.
        sticking_the_landing: score :math:`Q` with :math:`\alpha, \beta, \mu, \sigma` detached
            (Roeder et al. 2017), which leaves the gradient unbiased and, near the
            optimum, far less noisy.
        initial_scale: initial :math:`\sigma`.
        initial_mixing: initial :math:`q`.
        name: how errors call this layer.
        jitter: relative jitter on :math:`K_{ii}`.
        dtype: of the parameters.

    >>> from deepwishart.kernels import SquaredExponential
    >>> generator = torch.Generator().manual_seed(0)
    >>> layer = WishartLayer(SquaredExponential(), 3, num_inducing=5, generator=generator)
    >>> points = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    >>> state, log_ratio = layer.sample_inducing(points, Noise(10, generator))
    >>> state.outputs.shape, log_ratio.shape
    (torch.Size([10, 5, 3]), torch.Size([10]))
    """

    def __init__(
        self,
        kernel: Kernel,
        width: int,
        num_inducing: int,
        *,
        generator: torch.Generator,
        sticking_the_landing: bool = True,
        initial_scale: float = math.exp(-3.0),
        initial_mixing: float = 1.0 / (1.0 + math.exp(4.0)),
        name: str = "layer 1",
        jitter: float = 1e-6,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(kernel, scale=1.0 / width, name=name, jitter=jitter)
        self.width = width
        self.sticking_the_landing = sticking_the_landing
        rank = min(width, num_inducing)

        def normal(columns: int) -> Tensor:
            drawn = torch.randn(num_inducing, columns, generator=generator, dtype=dtype)
            return drawn / math.sqrt(columns)

        degrees = torch.arange(width, width - rank, -1, dtype=dtype)
        self.log_concentration = nn.Parameter((degrees / 2).log())
        self.log_rate = nn.Parameter(torch.full((rank,), math.log(0.5), dtype=dtype))
        self.loc = nn.Parameter(normal(rank))
        self.log_scale = nn.Parameter(
            torch.full((num_inducing, rank), math.log(initial_scale), dtype=dtype)
        )
        self.mixing_logit = nn.Parameter(
            torch.tensor(math.log(initial_mixing / (1 - initial_mixing)), dtype=dtype)
        )
        self.scale_root = nn.Parameter(normal(num_inducing))

    @property
    def mixing(self) -> Tensor:
        r"""The weight :math:`q \in (0, 1)` of the learned scale :math:`V V^\top`."""
        return self.mixing_logit.sigmoid()

    @torch.no_grad()
    def start_from(self, inducing: Inducing, features: Tensor) -> Tensor:
        r"""Centre the Bartlett factor on :math:`A = L^{-1} F U`, with :math:`U` the rotation that
        makes :math:`F U` lower trapezoidal, and start from the prior's scale,
        :math:`V V^\top = \tfrac1\nu K`."""
        rank = self.loc.shape[-1]
        kernel = linalg.add_jitter(kernel_inducing(self.kernel, inducing), self.jitter)
        lower = linalg.cholesky(kernel * self.scale, what=f"the kernel matrix of {self.name}")
        rotation = torch.linalg.qr(features[:rank].mT).Q
        rotated = features @ rotation
        rotated = rotated * torch.where(rotated.diagonal() < 0, -1.0, 1.0)
        centre = linalg.solve_lower(lower, rotated).tril()
        diagonal = centre.diagonal().clamp_min(_SMALLEST_START)
        centre.diagonal().copy_(diagonal)
        self.loc.copy_(centre)
        self.log_rate.copy_(self.log_concentration - 2.0 * diagonal.log())
        self.scale_root.copy_(lower)
        return nn.functional.pad(lower @ centre, (0, self.width - rank))

    def posterior(self, scaled_kernel: Tensor) -> GeneralisedSingularWishart:
        r""":math:`Q(G \mid \cdot)` given :math:`\Sigma = \tfrac1\nu K_{ii}` (jitter included)."""
        q = self.mixing
        mixed = (1 - q) * scaled_kernel + q * (self.scale_root @ self.scale_root.mT)
        lower = linalg.cholesky(mixed, what=f"the posterior scale of {self.name}")
        return GeneralisedSingularWishart(
            self.width,
            self.log_concentration.exp(),
            self.log_rate.exp(),
            self.loc,
            self.log_scale.exp(),
            scale_tril=lower,
            validate_args=False,
        )

    def sample_inducing(self, inducing: Inducing, noise: Noise) -> tuple[GaussianState, Tensor]:
        kernel = linalg.add_jitter(kernel_inducing(self.kernel, inducing), self.jitter)
        prior = linalg.factor(kernel, what=f"the kernel matrix of {self.name}")
        shape = (noise.num_samples,) if kernel.ndim == 2 else ()
        root, log_q = self.posterior(kernel * self.scale).rsample_root_with_log_prob(
            shape, sticking_the_landing=self.sticking_the_landing, generator=noise.generator
        )
        weights = prior.inverse @ root
        log_p = Wishart(
            self.width, scale_tril=prior.lower * math.sqrt(self.scale), validate_args=False
        ).log_prob_root(root, whitened=weights / math.sqrt(self.scale))
        padding = self.width - root.shape[-1]
        if padding:
            root = nn.functional.pad(root, (0, padding))
            weights = nn.functional.pad(weights, (0, padding))
        return GaussianState(inducing, prior.inverse, weights, root), log_p - log_q

    def prior(self, kernel_matrix: Tensor) -> Wishart:
        lower = linalg.cholesky(
            kernel_matrix * self.scale, jitter=self.jitter, what=f"the prior of {self.name}"
        )
        return Wishart(self.width, scale_tril=lower)
