r"""Samples of layers whose rows are Gaussian given the layer below: the Wishart process's, and
those of deep GPs."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from deepwishart.layers.base import Inducing, KernelPart, LayerSample, NamedPart, Rows
from deepwishart.numerics import linalg
from deepwishart.numerics.rows import Conditional, condition, draw_rows
from deepwishart.random import RowRandomness

__all__ = [
    "ConditionalSample",
    "GaussianSample",
    "JointMoments",
    "KernelSample",
    "ProjectedSample",
]


class JointMoments(NamedTuple):
    """Mean ``(..., N, D)`` and covariance over rows for each column, ``(..., D, N, N)``, or
    ``(..., 1, N, N)`` where all columns share it; with the prior's covariance ``(..., N, N)``,
    whose size says how exact the other is."""

    mean: Tensor
    covariance: Tensor
    prior: Tensor


@dataclass(eq=False)
class GaussianSample(LayerSample):
    """Samples of a layer whose rows are Gaussian, given the layer below at the inducing points
    (``inputs``); a subclass says with which moments."""

    layer: NamedPart
    inputs: Inducing
    log_ratio: Tensor

    @property
    def inducing(self) -> Inducing:
        raise TypeError(f"{self.layer.name} is the last: its inducing points were integrated out.")

    @abstractmethod
    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Mean ``(..., N, D)`` and variance ``(..., N, 1)`` or ``(..., N, D)`` of each row."""

    @abstractmethod
    def unexplained(self, rows: Rows) -> Tensor:
        r"""What inducing points leave of each row's prior variance,
        :math:`\Sigma_{tt} - |L^{-1} \Sigma_{it}|^2`, ``(..., N, 1)`` or ``(..., N, D)``."""

    @abstractmethod
    def joint_moments(self, rows: Rows) -> JointMoments:
        """Moments of all rows together."""

    def rows(self, rows: Rows, random: RowRandomness, joint: bool = False) -> Tensor:
        if joint:
            return self._joint_rows(rows, random)
        mean, variance = self.moments(rows)
        return torch.addcmul(mean, variance.sqrt(), random.normal(*mean.shape[-2:]))

    def _joint_rows(self, rows: Rows, random: RowRandomness) -> Tensor:
        mean, covariance, prior = self.joint_moments(rows)
        root = linalg.cholesky(
            covariance,
            jitter=self.layer.jitter,
            relative_to=prior.unsqueeze(-3),
            what=f"the conditional covariance of {self.layer.name}",
        )
        epsilon = random.normal(*mean.shape[-2:])
        return mean + (root @ epsilon.mT.unsqueeze(-1)).squeeze(-1).mT


@dataclass(eq=False)
class KernelSample(GaussianSample):
    """Samples of a layer whose columns have one kernel."""

    layer: KernelPart

    def unexplained(self, rows: Rows) -> Tensor:
        covariance = self.layer.covariance(self.inputs)
        inverse = linalg.factor(covariance, what=f"the kernel matrix of {self.layer.name}").inverse
        cross, own = self.layer.row_covariance(self.inputs, rows)
        nothing = own.new_zeros(covariance.shape[-1], 1)
        return condition(inverse, cross, own, nothing)[1].unsqueeze(-1)


@dataclass(eq=False)
class ProjectedSample(KernelSample):
    r"""Rows with mean :math:`(H \Sigma_{it})^\top w` and variance
    :math:`\Sigma_{tt} - |H \Sigma_{it}|^2`, where :math:`H` ``(..., P, P)`` is the ``projection``
    and :math:`w` ``(..., P, D)`` are the ``weights``."""

    projection: Tensor
    weights: Tensor

    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        cross, own = self.layer.row_covariance(self.inputs, rows)
        mean, variance = condition(self.projection, cross, own, self.weights)
        return mean, variance.unsqueeze(-1)

    def joint_moments(self, rows: Rows) -> JointMoments:
        cross, square = self.layer.joint_covariance(self.inputs, rows)
        projected = self.projection @ cross
        covariance = square - projected.mT @ projected
        return JointMoments(projected.mT @ self.weights, covariance.unsqueeze(-3), square)


class ConditionalSample(ProjectedSample):
    r"""Rows given sampled inducing points :math:`F_i`:

    .. math:: F_t \mid F_i \sim \mathcal{MN}\big(\Sigma_{ti} \Sigma_{ii}^{-1} F_i,\;
              \Sigma_{tt} - \Sigma_{ti} \Sigma_{ii}^{-1} \Sigma_{it},\; I\big)

    (paper, Eq. Ft|Fi).

    Args:
        given: :math:`F_i` and the factors of :math:`\Sigma_{ii}`.
    """

    given: Conditional

    def __init__(
        self, layer: KernelPart, inputs: Inducing, log_ratio: Tensor, given: Conditional
    ) -> None:
        super().__init__(layer, inputs, log_ratio, given.inverse, given.weights)
        self.given = given

    @property
    def inducing(self) -> Tensor:
        return self.given.root

    def rows(self, rows: Rows, random: RowRandomness, joint: bool = False) -> Tensor:
        if joint:
            return self._joint_rows(rows, random)
        cross, own = self.layer.row_covariance(self.inputs, rows)
        epsilon = random.normal(own.shape[-1], self.given.root.shape[-1])
        return draw_rows(self.given, cross, own, epsilon)
