"""The Wishart distribution, full-rank or singular."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.types import _size

from deepwishart.distributions.bartlett import concentrations, sample_factor
from deepwishart.distributions.gram import GramDistribution
from deepwishart.numerics import linalg
from deepwishart.numerics.wishart import log_density_of_root


class Wishart(GramDistribution):
    r"""The law of :math:`G = \sum_{\lambda=1}^\nu n_\lambda n_\lambda^\top`,
    :math:`n_\lambda \sim \mathcal{N}(0, \Sigma)`.

    .. math:: p(G) = \frac{\pi^{\nu (m - P)/2}}{2^{\nu P/2}\, \Gamma_m(\nu/2)\, |\Sigma|^{\nu/2}}
              \, |G_{:m,:m}|^{(\nu - P - 1)/2}\, e^{-\operatorname{tr}(\Sigma^{-1} G)/2}

    with :math:`m = \min(P, \nu)`: the density on the free elements
    :math:`G_{ij}, j \le \min(i, m)` (Ober & Aitchison 2021, Appendix D, with a general scale;
    the powers of :math:`L_{jj}` left by the two Jacobians add up to :math:`|\Sigma|^{-\nu/2}` in
    every case). For :math:`\nu > P - 1` it is the usual density, and :math:`\nu` may be any real
    number; below that :math:`\nu` is an integer and :math:`G` has rank :math:`\nu`.

    Args:
        df: degrees of freedom :math:`\nu`, a number or a tensor ``(...)``. A tensor has to give one
            common rank: all entries above :math:`P - 1`, or one and the same integer.
        covariance_matrix: scale :math:`\Sigma`, ``(..., P, P)``; the mean is :math:`\nu \Sigma`.
        scale_tril: its Cholesky factor :math:`L`, in place of ``covariance_matrix``.
        validate_args: check arguments and values, at a cost.

    >>> singular = Wishart(2, covariance_matrix=torch.eye(3, dtype=torch.float64))
    >>> G = singular.rsample((10,), generator=torch.Generator().manual_seed(0))
    >>> G.shape, singular.rank, singular.log_prob(G).shape
    (torch.Size([10, 3, 3]), 2, torch.Size([10]))
    """

    @property
    def mean(self) -> Tensor:
        r""":math:`\nu \Sigma`, ``(*batch_shape, P, P)``."""
        return self._degrees * self.covariance_matrix

    def rsample_root(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draw :math:`\Lambda = L A` with :math:`A` the Bartlett factor (Secs. 2.2 and 3.1)."""
        alpha = concentrations(self.df, self.rank, self.scale_tril)
        shape = torch.Size(sample_shape) + self.batch_shape
        return self.scale_tril @ sample_factor(shape, self.dimension, alpha, generator)

    def _log_prob_root(self, root: Tensor) -> Tensor:
        whitened = linalg.solve_lower(self.scale_tril, root)
        return log_density_of_root(root, whitened, linalg.log_det(self.scale_tril), self.df)
