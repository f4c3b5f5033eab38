"""The matrix normal distribution."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.types import _size

from deepwishart.distributions.gram import Constraints, SeededDistribution
from deepwishart.numerics import linalg
from deepwishart.random import standard_normal


class MatrixNormal(SeededDistribution):
    r"""The law of :math:`X = M + L E` with standard normal :math:`E`: independent columns,
    :math:`X_{:d} \sim \mathcal{N}(M_{:d}, U)`, :math:`U = L L^\top`.

    .. math:: \log p(X) = -\tfrac12 \|L^{-1} (X - M)\|_F^2 - D \log|L| - \tfrac{PD}2 \log 2\pi

    Args:
        loc: mean :math:`M`, ``(..., P, D)``.
        row_scale_tril: :math:`L`, ``(..., P, P)``.
        validate_args: check arguments and values, at a cost.

    >>> features = MatrixNormal(torch.zeros(4, 2), torch.eye(4))
    >>> X = features.rsample((3,))
    >>> X.shape, features.log_prob(X).shape
    (torch.Size([3, 4, 2]), torch.Size([3]))
    """

    parameters: ClassVar[Constraints] = {
        "loc": constraints.independent(constraints.real, 2),
        "row_scale_tril": constraints.lower_cholesky,
    }
    support = constraints.independent(constraints.real, 2)

    def __init__(
        self, loc: Tensor, row_scale_tril: Tensor, validate_args: bool | None = None
    ) -> None:
        self.loc, self.row_scale_tril = loc, row_scale_tril
        P, D = (1, 1, *loc.shape)[-2:]
        self._require_shapes(loc=(P, D), row_scale_tril=(P, P))
        super().__init__((P, D), validate_args)

    @property
    def mean(self) -> Tensor:
        """:math:`M`, ``(*batch_shape, P, D)``."""
        return self.loc.expand(*self.batch_shape, *self.event_shape)

    def rsample(
        self, sample_shape: _size = (), *, generator: torch.Generator | None = None
    ) -> Tensor:
        r"""Draw :math:`M + L E`, ``(*sample_shape, *batch_shape, P, D)``, differentiably."""
        shape = self._extended_shape(sample_shape)
        noise = standard_normal(shape, self.loc.dtype, self.loc.device, generator)
        return self.loc + self.row_scale_tril @ noise

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Log density of ``value``, ``(..., P, D)``; broadcasts with ``batch_shape``."""
        if self._validate_args:
            self._validate_sample(value)
        num_rows, num_columns = self.event_shape
        whitened = linalg.solve_lower(self.row_scale_tril, value - self.loc)
        log_volume = 0.5 * num_columns * linalg.log_det(self.row_scale_tril)
        constant = 0.5 * num_rows * num_columns * math.log(2.0 * math.pi)
        return -0.5 * whitened.square().sum((-2, -1)) - log_volume - constant
