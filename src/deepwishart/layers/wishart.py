r"""The deep Wishart process layer with the paper's approximate posterior."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from deepwishart import linalg
from deepwishart.distributions import GeneralisedSingularWishart, Wishart
from deepwishart.distributions.scored_factor import draw_scored_factor
from deepwishart.distributions.wishart import log_normaliser
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
        kernel = kernel_inducing(self.kernel, inducing, self.jitter)
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
        learned = self.scale_root @ self.scale_root.mT
        mixed = (1 - self.mixing) * scaled_kernel + self.mixing * learned
        lower = linalg.cholesky(mixed, what=f"the posterior scale of {self.name}")
        return GeneralisedSingularWishart(self.width, *self._bartlett(), scale_tril=lower)

    def sample_inducing(self, inducing: Inducing, noise: Noise) -> tuple[GaussianState, Tensor]:
        r"""Draw a Bartlett factor :math:`A` and score prior and posterior as densities of
        :math:`A A^\top`.

        With :math:`G = R A A^\top R^\top`, :math:`R` the factor of the posterior's scale and
        :math:`s K = \tfrac1\nu K_{ii}`, the posterior's density there is that of the factor alone,
        and the powers of :math:`R_{jj}` in the prior's density and in the Jacobian
        (:func:`~deepwishart.distributions.bartlett.log_scale_volume`) add up to
        :math:`|R|^\nu` for every rank:

        .. math:: \log \mathrm P = \nu \log\frac{|R|}{|sK|^{1/2}}
                  + (\nu - P - 1) \sum_{j \le m} \log A_{jj}
                  - \tfrac12 \operatorname{tr}\big((sK)^{-1} G\big) - \text{const}.

        The middle term is subtracted from the posterior's density instead, as its ``tilt``.
        """
        factor, log_q = draw_scored_factor(
            noise.num_samples,
            *self._bartlett(),
            tilt=self.width - self.loc.shape[0] - 1,
            sticking_the_landing=self.sticking_the_landing,
            generator=noise.generator,
        )
        kernel = kernel_inducing(self.kernel, inducing, self.jitter)
        drawn = linalg.draw_root(
            kernel,
            self.scale_root,
            self.mixing,
            factor,
            scale=self.scale,
            degrees=self.width,
            what=self.name,
        )
        size, rank = self.loc.shape
        log_p = drawn.log_density - log_normaliser(self.width, size, rank)
        if rank < self.width:
            drawn = _padded(drawn, self.width - rank)
        return (
            GaussianState(inducing, drawn.inverse, drawn.weights, drawn.root, drawn.closed),
            log_p - log_q,
        )

    def _bartlett(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        r""":math:`\alpha, \beta, \mu, \sigma`."""
        return (
            self.log_concentration.exp(),
            self.log_rate.exp(),
            self.loc,
            self.log_scale.exp(),
        )

    def prior(self, kernel_matrix: Tensor) -> Wishart:
        lower = linalg.cholesky(
            kernel_matrix * self.scale, jitter=self.jitter, what=f"the prior of {self.name}"
        )
        return Wishart(self.width, scale_tril=lower)


def _padded(drawn: linalg.RootDraw, columns: int) -> linalg.RootDraw:
    """With zero columns, for layers that are wider than there are inducing points."""

    def pad(tensor: Tensor) -> Tensor:
        return nn.functional.pad(tensor, (0, columns))

    root, closed = pad(drawn.root), drawn.closed
    if closed is not None:
        closed = closed._replace(root=root, solved=pad(closed.solved))
    return drawn._replace(root=root, weights=pad(drawn.weights), closed=closed)
