"""The Wishart distribution of features that were observed: the anchored posterior."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.types import _size

from deepwishart.distributions.gram import Constraints, GramDistribution
from deepwishart.numerics import linalg
from deepwishart.numerics.anchored import Anchor, anchor
from deepwishart.numerics.mixing import log_scale_volume
from deepwishart.numerics.wishart import log_density_of_factor
from deepwishart.random import standard_gamma, standard_normal


class AnchoredWishart(GramDistribution):
    r"""The law of :math:`G = F F^\top`, :math:`F = L A`, whose columns were observed as
    :math:`M^\top v_j = M^\top F_{:j} + \text{noise}`.

    .. math:: A_{jj}^2 \sim \text{Gamma}(\alpha_j, \beta_j), \qquad
              A_{Tj} \mid A_{jj} \sim \mathcal N(N_{TT}^{-1} r_{Tj}, N_{TT}^{-1}), \quad
              T = \{i > j\}

    .. math:: q(G) = \prod_{i=1}^P L_{ii}^{-\min(i, m)} \prod_{j=1}^m
              \frac{\text{Gamma}(A_{jj}^2; \alpha_j, \beta_j)\,
              \mathcal N(A_{Tj}; N_{TT}^{-1} r_{Tj}, N_{TT}^{-1})}{A_{jj}^{P-j} L_{jj}^{P-j+1}}

    with :math:`N` and :math:`r` as in :mod:`deepwishart.numerics.anchored`. Where
    :class:`~deepwishart.distributions.GeneralisedSingularWishart` fixes the mean of the factor
    :math:`A`, so that :math:`G` moves whenever its scale does, this law holds :math:`F` where it
    was observed. Without observations, :math:`M = 0`, and with
    :math:`\alpha_j = (\nu - j + 1)/2, \beta_j = 1/2`, it is the
    :class:`~deepwishart.distributions.Wishart`.

    Args:
        df: degrees of freedom :math:`\nu`; only :math:`m = \min(P, \nu)` depends on it.
        concentration: :math:`\alpha > 0`, ``(..., m)``.
        rate: :math:`\beta > 0`, ``(..., m)``.
        targets: :math:`v`, ``(..., P, m)``.
        precision_root: :math:`M`, ``(..., P, P)``.
        covariance_matrix, scale_tril, validate_args: as in
            :class:`~deepwishart.distributions.Wishart`.

    >>> alpha, beta, v = torch.tensor([1.0, 0.5]), torch.tensor([0.5, 0.5]), torch.ones(3, 2)
    >>> q = AnchoredWishart(2, alpha, beta, v, torch.eye(3), scale_tril=torch.eye(3))
    >>> root, log_prob = q.rsample_root_with_log_prob((4,))
    >>> root.shape, torch.allclose(log_prob, q.log_prob_root(root), atol=1e-4)
    (torch.Size([4, 3, 2]), True)
    """

    parameters: ClassVar[Constraints] = {
        **GramDistribution.parameters,
        "concentration": constraints.independent(constraints.positive, 1),
        "rate": constraints.independent(constraints.positive, 1),
        "targets": constraints.independent(constraints.real, 2),
        "precision_root": constraints.independent(constraints.real, 2),
    }

    def __init__(
        self,
        df: float | Tensor,
        concentration: Tensor,
        rate: Tensor,
        targets: Tensor,
        precision_root: Tensor,
        covariance_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration, self.rate = concentration, rate
        self.targets, self.precision_root = targets, precision_root
        super().__init__(df, covariance_matrix, scale_tril, validate_args)
        P, m = self.dimension, self.rank
        self._require_shapes(concentration=(m,), rate=(m,), targets=(P, m), precision_root=(P, P))

    def rsample_root(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draw :math:`F = L A`."""
        return self.rsample_root_with_log_prob(sample_shape, generator=generator)[0]

    def rsample_root_with_log_prob(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""Draw :math:`F = L A`, ``(*sample_shape, *batch_shape, P, m)``, with
        :math:`\log q(F F^\top)`, ``(*sample_shape, *batch_shape)``, from the noise itself."""
        shape = torch.Size(sample_shape) + self.batch_shape
        gamma = standard_gamma(self.concentration.expand(*shape, self.rank), generator)
        squares = gamma / self.rate
        epsilon = standard_normal(
            torch.Size([*shape, self.dimension, self.rank]),
            squares.dtype,
            squares.device,
            generator,
        )
        known = self._anchor()
        factor = known.draw(squares.sqrt(), epsilon)
        return self.scale_tril @ factor, self._log_prob_factor(known, factor, epsilon.tril(-1))

    def _anchor(self) -> Anchor:
        return anchor(self.scale_tril, self.targets, self.precision_root)

    def _log_prob_root(self, root: Tensor) -> Tensor:
        factor = linalg.solve_lower(self.scale_tril, root)
        anchored = self._anchor()
        return self._log_prob_factor(anchored, factor, anchored.whiten(factor))

    def _log_prob_factor(self, known: Anchor, factor: Tensor, epsilon: Tensor) -> Tensor:
        # Given the diagonal, the factor below it is as dense as its noise, but for log|U|.
        noise = torch.diagonal_scatter(epsilon, factor.diagonal(dim1=-2, dim2=-1), dim1=-2, dim2=-1)
        zero, one = torch.zeros_like(noise), torch.ones_like(noise)
        density = log_density_of_factor(noise, self.concentration, self.rate, zero, one)
        return density + known.log_volume() - log_scale_volume(self.scale_tril, self.rank)
