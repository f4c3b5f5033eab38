"""The generalised singular Wishart distribution, the paper's approximate posterior, with mixed rows
and columns if wanted."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.types import _size

from deepwishart.distributions.gram import Constraints, GramDistribution
from deepwishart.numerics import linalg
from deepwishart.numerics.mixing import log_mixing_volume, log_scale_volume, unmix
from deepwishart.numerics.wishart import log_density_of_factor, scored_root
from deepwishart.random import factor_noise


class GeneralisedSingularWishart(GramDistribution):
    r"""The law of :math:`G = L A A^\top L^\top`, :math:`A = R T C`, with a Bartlett factor
    :math:`T` whose parameters are free.

    .. math:: T_{jj}^2 \sim \text{Gamma}(\alpha_j, \beta_j), \qquad
              T_{i>j} \sim \mathcal{N}(\mu_{ij}, \sigma_{ij}^2), \qquad \Sigma = L L^\top

    .. math:: q(G) = \prod_{i=1}^{P} (L_{ii} R_{ii})^{-\min(i, m)}
              \prod_{j=1}^{m} \frac{\text{Gamma}(T_{jj}^2; \alpha_j, \beta_j)}
              {T_{jj}^{P-j} (L_{jj} R_{jj} C_{jj}^2)^{P-j+1}}
              \prod_{i=j+1}^P \mathcal{N}(T_{ij}; \mu_{ij}, \sigma_{ij}^2)

    with :math:`m = \min(P, \nu)`. Unlike a Wishart, it controls the mean and the variance of a
    Gram matrix of given rank separately. Without mixing, :math:`R = I` and :math:`C = I`, it is
    the distribution of Ober & Aitchison (2021, Definition 1); with
    :math:`\alpha_j = (\nu - j + 1)/2, \beta_j = 1/2, \mu = 0, \sigma = 1` as well,
    :class:`~deepwishart.distributions.Wishart`. Mixing lets the entries of :math:`A` be
    correlated, :math:`R` within its columns and :math:`C` within its rows (Ober et al. 2023).
    The diagonals of :math:`R` and :math:`C` can be absorbed by
    :math:`\beta, \mu, \sigma`, so ones there lose no generality (:doc:`/theory`).

    Args:
        df: degrees of freedom :math:`\nu`; only :math:`m` depends on it.
        concentration: :math:`\alpha > 0`, ``(..., m)``.
        rate: :math:`\beta > 0`, ``(..., m)``.
        loc: :math:`\mu`, ``(..., P, m)``. Of this and ``scale``, only the elements strictly below
            the diagonal count.
        scale: :math:`\sigma > 0`, ``(..., P, m)``.
        covariance_matrix: scale matrix :math:`\Sigma`, ``(..., P, P)``.
        scale_tril, validate_args: as in :class:`Wishart`.
        row_mixing: :math:`R`, ``(..., P, P)``, lower triangular with positive diagonal; the
            identity if ``None``.
        column_mixing: :math:`C`, ``(..., m, m)``, likewise.

    >>> alpha, beta = torch.tensor([1.0, 0.5]), torch.tensor([0.5, 0.5])
    >>> mu, sigma, C = torch.zeros(3, 2), torch.ones(3, 2), torch.tensor([[1.0, 0.0], [0.5, 1.0]])
    >>> q = GeneralisedSingularWishart(
    ...     2, alpha, beta, mu, sigma, scale_tril=torch.eye(3), column_mixing=C
    ... )
    >>> root, log_prob = q.rsample_root_with_log_prob((4,))
    >>> root.shape, torch.allclose(log_prob, q.log_prob_root(root), atol=1e-4)
    (torch.Size([4, 3, 2]), True)
    """

    parameters: ClassVar[Constraints] = {
        **GramDistribution.parameters,
        "concentration": constraints.independent(constraints.positive, 1),
        "rate": constraints.independent(constraints.positive, 1),
        "loc": constraints.independent(constraints.real, 2),
        "scale": constraints.independent(constraints.positive, 2),
        "row_mixing": constraints.lower_cholesky,
        "column_mixing": constraints.lower_cholesky,
    }

    def __init__(
        self,
        df: float | Tensor,
        concentration: Tensor,
        rate: Tensor,
        loc: Tensor,
        scale: Tensor,
        covariance_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
        *,
        row_mixing: Tensor | None = None,
        column_mixing: Tensor | None = None,
    ) -> None:
        self.concentration, self.rate = concentration, rate
        self.loc, self.scale = loc, scale
        self.row_mixing, self.column_mixing = row_mixing, column_mixing
        super().__init__(df, covariance_matrix, scale_tril, validate_args)
        P, m = self.dimension, self.rank
        self._require_shapes(
            concentration=(m,),
            rate=(m,),
            loc=(P, m),
            scale=(P, m),
            row_mixing=(P, P),
            column_mixing=(m, m),
        )

    @property
    def mean(self) -> Tensor:
        r""":math:`L R \left(\mathrm{E}[T]\, C C^\top \mathrm{E}[T]^\top
        + \operatorname{diag}(\sum_j (C C^\top)_{jj} \operatorname{Var}[T_{ij}])\right)
        R^\top L^\top`, ``(*batch_shape, P, P)``.
        """
        alpha, beta = self.concentration, self.rate
        outer, columns = self.scale_tril, self.column_mixing
        outer = outer if self.row_mixing is None else outer @ self.row_mixing
        if columns is None:
            columns = torch.eye(self.rank, dtype=outer.dtype, device=outer.device)
        chi = (torch.lgamma(alpha + 0.5) - torch.lgamma(alpha)).exp() / beta.sqrt()  # E[T_jj]
        diagonal = torch.eye(*self.loc.shape[-2:], dtype=torch.bool, device=outer.device)
        mean = torch.where(diagonal, chi.unsqueeze(-2), self.loc.tril(-1))
        spread = (alpha / beta - chi.square()).unsqueeze(-2)
        variance = torch.where(diagonal, spread, self.scale.square().tril(-1))
        centre = outer @ mean @ columns
        noise = outer * (variance * columns.square().sum(-1).unsqueeze(-2)).sum(-1).unsqueeze(-2)
        value = centre @ centre.mT + noise @ outer.mT
        return value.expand(*self.batch_shape, *self.event_shape)

    def rsample_root(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draw :math:`\Lambda = L R T C`."""
        return self.rsample_root_with_log_prob(sample_shape, generator=generator)[0]

    def rsample_root_with_log_prob(
        self,
        sample_shape: _size = (),
        *,
        sticking_the_landing: bool = False,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        r"""Draw :math:`\Lambda = L R T C` and evaluate :math:`\log q(\Lambda \Lambda^\top)` there,
        with the landing stuck to or not
        (:func:`~deepwishart.numerics.wishart.scored_root`).

        The root is ``(*sample_shape, *batch_shape, P, m)`` and the log density
        ``(*sample_shape, *batch_shape)``.
        """
        shape = torch.Size(sample_shape) + self.batch_shape
        gamma, epsilon = factor_noise(shape, self.dimension, self.concentration, generator)
        return scored_root(
            self.scale_tril,
            gamma,
            self.concentration,
            self.rate,
            self.loc,
            self.scale,
            epsilon,
            sticking_the_landing,
            self.row_mixing,
            self.column_mixing,
        )

    def _log_prob_root(self, root: Tensor) -> Tensor:
        rows, columns = self.row_mixing, self.column_mixing
        factor = unmix(linalg.solve_lower(self.scale_tril, root), rows, columns)
        volume = log_scale_volume(self.scale_tril, self.rank)
        volume = volume + log_mixing_volume(rows, columns, self.dimension, self.rank)
        known = self.concentration, self.rate, self.loc, self.scale
        return log_density_of_factor(factor, *known) - volume
