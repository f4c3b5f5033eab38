r"""Layers that are Gaussian given the layer below: the Wishart process's rows, and deep GPs."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from deepwishart.distributions import MatrixNormal
from deepwishart.kernels import Kernel
from deepwishart.layers.base import (
    Inducing,
    Layer,
    LayerSample,
    NamedPart,
    Rows,
)
from deepwishart.numerics import linalg
from deepwishart.numerics.gaussian import Cross, formed
from deepwishart.numerics.rows import Conditional, condition, draw_rows
from deepwishart.random import RowRandomness

__all__ = [
    "Columns",
    "ConditionalSample",
    "Covariance",
    "GaussianLayer",
    "GaussianPrior",
    "GaussianSample",
    "JointMoments",
    "KernelSample",
    "ProjectedSample",
]


@dataclass(frozen=True)
class Covariance:
    r"""The prior covariance :math:`\Sigma = s K` of a Gaussian layer, block by block.

    Args:
        kernel: :math:`K`, applied to the layer below.
        variance: :math:`s`: :math:`1/\nu` in hidden layers, so that :math:`F F^\top` is the Gram
            matrix :math:`G` of the paper, and 1 in the output layer.

    >>> from deepwishart.kernels import SquaredExponential
    >>> Covariance(SquaredExponential(), variance=0.5).inducing(torch.zeros(1, 2), jitter=1.0)
    tensor([[1.]], grad_fn=<ViewBackward0>)
    """

    kernel: Kernel
    variance: float = 1.0

    def inducing(self, inducing: Inducing, jitter: float = 0.0) -> Tensor:
        r""":math:`\Sigma_{ii}`, with relative jitter."""
        return self.kernel.square(inducing, jitter=jitter, variance=self.variance)

    def rows(self, inducing: Inducing, rows: Rows) -> tuple[Cross, Tensor]:
        r""":math:`\Sigma_{it}`, possibly not yet formed, and the diagonal of
        :math:`\Sigma_{tt}`."""
        cross = self.kernel.cross(inducing, rows, variance=self.variance)
        return cross, self.kernel.diagonal(rows, variance=self.variance)

    def joint(self, inducing: Inducing, rows: Rows) -> tuple[Tensor, Tensor]:
        r""":math:`\Sigma_{it}` and all of :math:`\Sigma_{tt}`, of rows sampled jointly."""
        cross = self.kernel.cross(inducing, rows, variance=self.variance)
        return formed(cross), self.kernel.square(rows, variance=self.variance)


class Columns(NamedPart):
    """A part of a model that has ``width`` columns, of features or of latent functions."""

    def __init__(self, width: int, *, name: str, jitter: float) -> None:
        super().__init__()
        self.width, self.name, self.jitter = width, name, jitter


class GaussianPrior(Columns):
    r"""The prior :math:`P(F) = \prod_\lambda \mathcal N(f_\lambda; 0, s K)` over a layer's
    ``width`` columns; ``variance`` is :math:`s`."""

    def __init__(
        self, kernel: Kernel, width: int, *, variance: float, name: str, jitter: float
    ) -> None:
        super().__init__(width, name=name, jitter=jitter)
        self.kernel = kernel
        self.variance = variance

    @property
    def covariance(self) -> Covariance:
        r"""The prior's covariance :math:`\Sigma = s K`."""
        return Covariance(self.kernel, self.variance)

    def prior(self, kernel_matrix: Tensor) -> Distribution:
        """Prior of this layer at points whose kernel matrix is ``(..., N, N)``."""
        covariance = linalg.add_jitter(kernel_matrix, self.jitter) * self.variance
        lower = linalg.cholesky(covariance, what=f"the prior of {self.name}")
        return MatrixNormal(lower.new_zeros(*lower.shape[:-1], self.width), lower)


class GaussianLayer(GaussianPrior, Layer):
    """A hidden layer with a Gaussian prior, or that of the Gram matrix of its columns.

    A subclass states its posterior; ``examples/custom_layer.py`` has one in thirty lines.

    >>> from deepwishart.kernels import SquaredExponential
    >>> from deepwishart.layers import GlobalInducingLayer
    >>> layer = GlobalInducingLayer(SquaredExponential(), torch.zeros(5, 2))
    >>> isinstance(layer, GaussianLayer), layer.prior(torch.eye(3)).rsample().shape
    (True, torch.Size([3, 2]))
    """


class JointMoments(NamedTuple):
    """Mean ``(..., N, D)`` and covariance over rows for each column, ``(..., D, N, N)``, or
    ``(..., 1, N, N)`` where all columns share it; with the prior's covariance ``(..., N, N)``,
    whose size says how exact the other is."""

    mean: Tensor
    covariance: Tensor
    prior: Tensor


@dataclass(frozen=True)
class GaussianSample(LayerSample):
    """Samples of a layer whose rows are Gaussian, given the layer below at the inducing points
    (``inputs``); a subclass says with which moments."""

    layer: Columns
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


@dataclass(frozen=True)
class KernelSample(GaussianSample):
    """Samples of a layer whose columns have one kernel."""

    layer: GaussianPrior

    def unexplained(self, rows: Rows) -> Tensor:
        covariance = self.layer.covariance.inducing(self.inputs, self.layer.jitter)
        inverse = linalg.factor(covariance, what=f"the kernel matrix of {self.layer.name}").inverse
        cross, own = self.layer.covariance.rows(self.inputs, rows)
        nothing = own.new_zeros(covariance.shape[-1], 1)
        return condition(inverse, cross, own, nothing)[1].unsqueeze(-1)


@dataclass(frozen=True)
class ProjectedSample(KernelSample):
    r"""Rows with mean :math:`(H \Sigma_{it})^\top w` and variance
    :math:`\Sigma_{tt} - |H \Sigma_{it}|^2`, where :math:`H` ``(..., P, P)`` is the ``projection``
    and :math:`w` ``(..., P, D)`` are the ``weights``."""

    projection: Tensor
    weights: Tensor

    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        cross, own = self.layer.covariance.rows(self.inputs, rows)
        mean, variance = condition(self.projection, cross, own, self.weights)
        return mean, variance.unsqueeze(-1)

    def joint_moments(self, rows: Rows) -> JointMoments:
        cross, square = self.layer.covariance.joint(self.inputs, rows)
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
        self, layer: GaussianPrior, inputs: Inducing, log_ratio: Tensor, given: Conditional
    ) -> None:
        super().__init__(layer, inputs, log_ratio, given.inverse, given.weights)
        object.__setattr__(self, "given", given)

    @property
    def inducing(self) -> Tensor:
        return self.given.root

    def rows(self, rows: Rows, random: RowRandomness, joint: bool = False) -> Tensor:
        if joint:
            return self._joint_rows(rows, random)
        cross, own = self.layer.covariance.rows(self.inputs, rows)
        epsilon = random.normal(own.shape[-1], self.given.root.shape[-1])
        return draw_rows(self.given, cross, own, epsilon)
