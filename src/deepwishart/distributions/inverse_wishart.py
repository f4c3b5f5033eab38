"""The inverse Wishart distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.types import _size

from deepwishart.distributions.bartlett import concentrations, sample_factor
from deepwishart.distributions.gram import GramDistribution
from deepwishart.numerics import linalg
from deepwishart.numerics.wishart import log_multivariate_gamma


class InverseWishart(GramDistribution):
    r"""The law of the inverse of a Wishart matrix: :math:`G^{-1} \sim \mathcal{W}(\Psi^{-1}, \nu)`.

    .. math:: p(G) = \frac{|\Psi|^{\nu/2}}{2^{\nu P/2}\, \Gamma_P(\nu/2)}\,
              |G|^{-(\nu + P + 1)/2}\, e^{-\operatorname{tr}(\Psi G^{-1})/2}

    It is drawn as :math:`G = T T^\top`, :math:`T = L B^{-1}`, where :math:`\Psi = L L^\top` and
    :math:`B` is lower triangular with :math:`B^\top B \sim \mathcal{W}(I, \nu)`: a Bartlett factor
    with the roles of first and last row exchanged,
    :math:`B_{ii}^2 \sim \text{Gamma}(\tfrac{\nu - P + i}2, \tfrac12)`. So :math:`T` is itself
    the Cholesky factor of :math:`G`, and its inverse :math:`B L^{-1}` is triangular too.

    Args:
        df: degrees of freedom :math:`\nu > P - 1`, a number or ``(...)``.
        covariance_matrix: scale :math:`\Psi`, ``(..., P, P)``; the mean is
            :math:`\Psi / (\nu - P - 1)`.
        scale_tril, validate_args: as in :class:`Wishart`.

    >>> distribution = InverseWishart(6.5, covariance_matrix=torch.eye(3))
    >>> root, inverse_root, log_prob = distribution.rsample_root_with_log_prob((10,))
    >>> torch.allclose(root @ inverse_root, torch.eye(3), atol=1e-5)
    True
    """

    def _find_rank(self) -> int:
        least = self.dimension - 1
        if not bool((torch.as_tensor(self.df) > least).all()):
            raise ValueError(
                f"df of InverseWishart has to be above P - 1 = {least}; got {self.df}."
            )
        return self.dimension

    @property
    def mean(self) -> Tensor:
        r""":math:`\Psi / (\nu - P - 1)`, NaN where :math:`\nu \le P + 1`; ``(..., P, P)``."""
        excess = self._degrees - self.dimension
        excess = torch.where(excess > 1, excess, math.nan)
        return self.covariance_matrix / (excess - 1)

    def rsample_root(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draw the Cholesky factor :math:`T = L B^{-1}` of :math:`G`."""
        return self._root(self._rsample_factor(sample_shape, generator))

    def rsample_root_with_log_prob(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Draw :math:`T = L B^{-1}`, with :math:`T^{-1} = B L^{-1}` and :math:`\log p(T T^\top)`.

        Costs the two triangular solves and no factorisation:
        :math:`\operatorname{tr}(\Psi G^{-1}) = \|B\|_F^2` and
        :math:`\log|G| = 2 \sum_i (\log L_{ii} - \log B_{ii})`.
        """
        factor = self._rsample_factor(sample_shape, generator)
        inverse_root = linalg.solve_upper(self.scale_tril, factor.mT).mT
        log_det = linalg.log_det(self.scale_tril) - linalg.log_det(factor)
        return self._root(factor), inverse_root, self._log_prob(factor, log_det)

    def log_prob_inverse_root(self, inverse_root: Tensor) -> Tensor:
        r"""The log density of :math:`G = (W^\top W)^{-1}` given :math:`W`, without any solve.

        Uses :math:`\operatorname{tr}(\Psi G^{-1}) = \|W L\|_F^2` and
        :math:`\log|G| = -2 \sum_i \log W_{ii}`.
        """
        if self._validate_args:
            self._validate_root(inverse_root)
        return self._log_prob(inverse_root @ self.scale_tril, -linalg.log_det(inverse_root))

    def _rsample_factor(self, sample_shape: _size, generator: torch.Generator | None) -> Tensor:
        shape = torch.Size(sample_shape) + self.batch_shape
        # Exchanging first and last row reverses the degrees of freedom along the diagonal.
        alpha = concentrations(self.df, self.dimension, self.scale_tril).flip(-1)
        return sample_factor(shape, self.dimension, alpha, generator)

    def _root(self, factor: Tensor) -> Tensor:
        return linalg.solve_upper(factor, self.scale_tril.mT).mT

    def _log_prob_root(self, root: Tensor) -> Tensor:
        return self._log_prob(linalg.solve_lower(root, self.scale_tril), linalg.log_det(root))

    def _log_prob(self, whitened: Tensor, log_det: Tensor) -> Tensor:
        r"""The density, given :math:`\log|G|` and any :math:`B` with
        :math:`\operatorname{tr}(\Psi G^{-1}) = \|B\|_F^2`.
        """
        nu, num_rows = self.df, self.dimension
        scale = 0.5 * nu * (linalg.log_det(self.scale_tril) - num_rows * math.log(2.0))
        quadratic = 0.5 * whitened.square().sum((-2, -1))
        power = 0.5 * (nu + num_rows + 1) * log_det
        return scale - log_multivariate_gamma(nu, num_rows) - power - quadratic
