r"""The deep Wishart process layer whose posterior stays where its features were observed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart.distributions import AnchoredWishart
from deepwishart.distributions.bartlett import factor_noise
from deepwishart.kernels import Kernel
from deepwishart.layers.base import Inducing
from deepwishart.layers.gaussian import ConditionalSample
from deepwishart.layers.global_inducing import PseudoObservations
from deepwishart.layers.wishart import LEAST_NOISE, BartlettLayer
from deepwishart.numerics.anchored import draw_anchored
from deepwishart.random import Randomness

__all__ = ["AnchoredLayer"]


class AnchoredLayer(BartlettLayer):
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
        kernel, width, num_inducing, dtype: as in :class:`BartlettLayer`.
        **options: ``sticking_the_landing``, ``name`` and ``jitter``, likewise.

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
        dtype: torch.dtype = torch.float64,
        **options: Any,
    ) -> None:
        super().__init__(kernel, width, num_inducing, dtype=dtype, **options)
        zero = torch.zeros(num_inducing, self.rank, dtype=dtype)
        self.pseudo = PseudoObservations(zero, precision=width / LEAST_NOISE)

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
        covariance = self.covariance(inducing)
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
        noise = max(LEAST_NOISE, noise)
        lower, rotated, centre = self.observed_factor(inducing, features, noise)
        self.pseudo.set(rotated, 1.0 / (noise * self.variance))
        return self.padded(lower @ centre)
