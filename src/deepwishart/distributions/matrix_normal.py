"""The matrix normal distribution."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.types import _size

from deepwishart.distributions.bartlett import standard_normal
from deepwishart.distributions.gram import Constraints, SeededDistribution
from deepwishart.numerics import linalg


class MatrixNormal(SeededDistribution):
    r"""The law of :math:`X = M + L E R^\top` with standard normal :math:`E`.

    .. math:: \log p(X) = -\tfrac12 \|L^{-1} (X - M) R^{-\top}\|_F^2 - D \log|L| - P \log|R|
              - \tfrac{PD}2 \log 2\pi

    Rows are correlated through :math:`U = L L^\top` and columns through :math:`V = R R^\top`;
    with :math:`V = I`, the columns are independent draws from
    :math:`\mathcal{N}(M_{:,d}, U)`.

    Args:
        loc: mean :math:`M`, ``(..., P, D)``.
        row_scale_tril: :math:`L`, ``(..., P, P)``.
        column_scale_tril: :math:`R`, ``(..., D, D)``; ``None`` is the identity.
        validate_args: check arguments and values, at a cost.

    >>> features = MatrixNormal(torch.zeros(4, 2), torch.eye(4))
    >>> X = features.rsample((3,))
    >>> X.shape, features.log_prob(X).shape
    (torch.Size([3, 4, 2]), torch.Size([3]))
    """

    parameters: ClassVar[Constraints] = {
        "loc": constraints.independent(constraints.real, 2),
        "row_scale_tril": constraints.lower_cholesky,
        "column_scale_tril": constraints.lower_cholesky,
    }
    support = constraints.independent(constraints.real, 2)

    def __init__(
        self,
        loc: Tensor,
        row_scale_tril: Tensor,
        column_scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.loc = loc
        self.row_scale_tril, self.column_scale_tril = row_scale_tril, column_scale_tril
        P, D = (1, 1, *loc.shape)[-2:]
        self._require_shapes(loc=(P, D), row_scale_tril=(P, P), column_scale_tril=(D, D))
        super().__init__((P, D), validate_args)

    @property
    def mean(self) -> Tensor:
        """:math:`M`, ``(*batch_shape, P, D)``."""
        return self.loc.expand(*self.batch_shape, *self.event_shape)

    @property
    def variance(self) -> Tensor:
        r""":math:`\operatorname{Var}[X_{pd}] = U_{pp} V_{dd}`, ``(*batch_shape, P, D)``."""
        variance = self.row_scale_tril.square().sum(-1).unsqueeze(-1)
        if self.column_scale_tril is not None:
            variance = variance * self.column_scale_tril.square().sum(-1).unsqueeze(-2)
        return variance.expand(*self.batch_shape, *self.event_shape)

    def rsample(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draw :math:`M + L E R^\top`, ``(*sample_shape, *batch_shape, P, D)``, differentiably."""
        noise = standard_normal(
            self._extended_shape(sample_shape), self.loc.dtype, self.loc.device, generator
        )
        deviation = self.row_scale_tril @ noise
        if self.column_scale_tril is not None:
            deviation = deviation @ self.column_scale_tril.mT
        return self.loc + deviation

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Log density of ``value``, ``(..., P, D)``; broadcasts with ``batch_shape``."""
        if self._validate_args:
            self._validate_sample(value)
        num_rows, num_columns = self.event_shape
        whitened = linalg.solve_lower(self.row_scale_tril, value - self.loc)
        log_volume = 0.5 * num_columns * linalg.log_det(self.row_scale_tril)
        if self.column_scale_tril is not None:
            whitened = linalg.solve_lower(self.column_scale_tril, whitened.mT)
            log_volume = log_volume + 0.5 * num_rows * linalg.log_det(self.column_scale_tril)
        constant = 0.5 * num_rows * num_columns * math.log(2.0 * math.pi)
        return -0.5 * whitened.square().sum((-2, -1)) - log_volume - constant
