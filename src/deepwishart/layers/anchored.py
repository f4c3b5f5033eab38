r"""The deep Wishart process layer whose posterior stays where its features were observed."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from deepwishart.distributions import AnchoredWishart
from deepwishart.distributions.bartlett import factor_noise
from deepwishart.kernels import Kernel
from deepwishart.layers.base import Inducing
from deepwishart.layers.gaussian import ConditionalSample, GaussianLayer
from deepwishart.layers.global_inducing import PseudoObservations
from deepwishart.layers.wishart import observed_factor
from deepwishart.numerics import linalg
from deepwishart.numerics.anchored import draw_anchored
from deepwishart.random import Randomness

__all__ = ["AnchoredLayer"]

_LEAST_NOISE = 0.03  # of a start, relative to the prior's variance


class AnchoredLayer(GaussianLayer):
    r""":math:`P(G_\ell \mid G_{\ell-1}) = \mathcal W(\tfrac1\nu K(G_{\ell-1}), \nu)`, the prior of
    :class:`~deepwishart.layers.WishartLayer`, with the posterior
    :class:`~deepwishart.distributions.AnchoredWishart`:

    .. math:: G_{ii} = F_i F_i^\top, \quad F_i = L A, \quad A_{jj}^2 \sim \text{Gamma}(\alpha_j,
              \beta_j), \quad A_{i > j} \mid A_{jj} \sim
              P\big(\,\cdot \mid M^\top v_j = M^\top F_{:j} + \text{noise}\big).

    The pseudo-observations :math:`M^\top v` hold the features themselves, in the gauge in which
    they are lower trapezoidal, whatever the layers below do. Both scales are
    :math:`\Sigma = K/\nu`, so all Jacobians cancel, and with the noise :math:`\epsilon` of the draw
    (:mod:`deepwishart.numerics.anchored`)

    .. math:: \log\frac PQ = \sum_j \log \frac{\text{Gamma}(A_{jj}^2; \frac{\nu-j+1}2, \frac12)}
              {\text{Gamma}(A_{jj}^2; \alpha_j, \beta_j)} + \sum_{i > j} \Big(
              \tfrac12 \big(\epsilon_{ij}^2 - A_{ij}^2\big) - \log U_{ii}\Big).

    The second sum has no score term: sticking the landing (Roeder et al. 2017) concerns
    :math:`\alpha, \beta` alone.

    Args:
        kernel: kernel applied to the previous layer.
        width: degrees of freedom :math:`\nu`.
        num_inducing: number of inducing points P.
        sticking_the_landing: score the gamma variables with :math:`\alpha, \beta` detached.
        name: how errors call this layer.
        jitter: relative jitter on :math:`K_{ii}`.
        dtype: of the parameters.

    >>> from deepwishart.kernels import SquaredExponential
    >>> layer = AnchoredLayer(SquaredExponential(dtype=torch.float64), 3, num_inducing=5)
    >>> points = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    >>> sample = layer.sample(points, Randomness(10))
    >>> sample.inducing.shape, sample.log_ratio.shape
    (torch.Size([10, 5, 3]), torch.Size([10]))
    """

    def __init__(
        self,
        kernel: Kernel,
        width: int,
        num_inducing: int,
        *,
        sticking_the_landing: bool = True,
        name: str = "layer 1",
        jitter: float = 1e-6,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(kernel, width, variance=1.0 / width, name=name, jitter=jitter)
        self.sticking_the_landing = sticking_the_landing
        rank = min(width, num_inducing)
        alpha = 0.5 * (width - torch.arange(rank, dtype=dtype))
        self.log_concentration = nn.Parameter(alpha.log())
        self.log_rate = nn.Parameter(torch.full((rank,), math.log(0.5), dtype=dtype))
        zero = torch.zeros(num_inducing, rank, dtype=dtype)
        self.pseudo = PseudoObservations(zero, precision=width / _LEAST_NOISE)

    def posterior(self, covariance: Tensor) -> AnchoredWishart:
        r""":math:`Q(G_{ii} \mid \cdot)` given :math:`\Sigma_{ii}`, jitter included."""
        return AnchoredWishart(
            self.width,
            self.log_concentration.exp(),
            self.log_rate.exp(),
            self.pseudo.targets,
            self.pseudo.root,
            covariance_matrix=covariance,
            validate_args=False,
        )

    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> ConditionalSample:
        covariance = self.covariance.inducing(inducing, self.jitter)
        alpha, targets = self.log_concentration.exp(), self.pseudo.targets
        batch = torch.Size([random.num_samples])
        gamma, epsilon = factor_noise(batch, len(targets), alpha, random.generator)
        log_ratio, given = draw_anchored(
            covariance,
            gamma,
            alpha,
            self.log_rate.exp(),
            targets,
            self.pseudo.root,
            epsilon,
            self.width,
            sticking=self.sticking_the_landing,
            what=self.name,
        )
        return ConditionalSample(self, inducing, log_ratio, given.widened(self.width))

    @torch.no_grad()
    def start_from(self, inducing: Inducing, features: Tensor, noise: float = 0.03) -> Tensor:
        r"""Observe ``features`` :math:`F`, rotated so that they are lower trapezoidal, with noise
        of variance :math:`\tau^2 = \lambda/\nu`, :math:`\lambda \ge 0.03`.

        Gamma-distributed squares of the diagonal have their mean at the square of what the
        observations expect, and at least at :math:`\lambda/(1 + \lambda)` times the prior's.
        """
        rank, noise = self.pseudo.targets.shape[-1], max(_LEAST_NOISE, noise)
        covariance = self.covariance.inducing(inducing, self.jitter)
        lower = linalg.cholesky(covariance, what=f"the kernel matrix of {self.name}")
        tau2, alpha = noise * self.variance, self.log_concentration.exp()
        rotated, centre = observed_factor(lower, features, tau2, noise, alpha, self.name)
        self.pseudo.set(rotated, 1.0 / tau2)
        self.log_rate.copy_(self.log_concentration - 2.0 * centre.diagonal().log())
        return nn.functional.pad(lower @ centre, (0, self.width - rank))
