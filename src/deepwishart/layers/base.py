r"""What every layer does: sample its inducing part, then its rows given that part.

A layer receives the previous layer's latent variable at the inducing points and returns its own,
together with :math:`\log p - \log q`; nothing is kept on the layer. A latent variable is either
features :math:`F` (with Gram matrix :math:`G = F F^\top`), or a Gram matrix itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from deepwishart import linalg
from deepwishart.kernels import Kernel
from deepwishart.noise import Noise

__all__ = ["GaussianRows", "GaussianState", "GramInducing", "GramRows", "Inducing", "Layer", "Rows"]


class GramInducing(NamedTuple):
    """Inducing points known by their Gram matrix only, ``(..., P, P)``.

    >>> GramInducing(torch.eye(3)).gram.shape
    torch.Size([3, 3])
    """

    gram: Tensor


class GramRows(NamedTuple):
    """Rows known by inner products: with the inducing points ``(..., P, N)``, and with themselves
    (``(..., N)``, or ``(..., N, N)`` when rows are sampled jointly).

    >>> features, inducing = torch.ones(4, 2), torch.ones(3, 2)
    >>> rows = GramRows(cross=inducing @ features.mT, diagonal=features.square().sum(-1))
    >>> rows.cross.shape, rows.diagonal.shape
    (torch.Size([3, 4]), torch.Size([4]))
    """

    cross: Tensor
    diagonal: Tensor


Inducing = Tensor | GramInducing
Rows = Tensor | GramRows


def kernel_inducing(kernel: Kernel, inducing: Inducing, jitter: float = 0.0) -> Tensor:
    """:math:`K_{ii}` from features or from a Gram matrix, with relative jitter on its diagonal."""
    if isinstance(inducing, GramInducing):
        matrix = kernel.square_from_gram(inducing.gram)
        return linalg.add_jitter(matrix, jitter) if jitter else matrix
    return kernel.jittered_square(inducing, jitter) if jitter else kernel.square(inducing)


def kernel_rows(
    kernel: Kernel, inducing: Inducing, rows: Rows, joint: bool = False
) -> tuple[Tensor, Tensor]:
    """:math:`K_{it}` and :math:`k_{tt}`: the diagonal, or the full matrix when ``joint``."""
    if isinstance(inducing, GramInducing):
        assert isinstance(rows, GramRows)
        own = rows.diagonal.diagonal(dim1=-2, dim2=-1) if joint else rows.diagonal
        cross = kernel.cross_from_gram(inducing.gram.diagonal(dim1=-2, dim2=-1), rows.cross, own)
        square = kernel.square_from_gram if joint else kernel.diagonal_from_gram
        return cross, square(rows.diagonal)
    assert isinstance(rows, Tensor)
    return kernel.cross(inducing, rows), kernel.square(rows) if joint else kernel.diagonal(rows)


class Layer(nn.Module, ABC):
    r"""One step of Algorithm 1: :math:`G_{ii} \sim \mathrm Q`, then rows given :math:`G_{ii}`.

    Check a layer of your own with :func:`deepwishart.testing.check_layer`.

    Args:
        name: what error messages call the layer.
        jitter: relative jitter on kernel matrices.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=3, width=2, num_inducing=5)
    >>> rows, inducing, noise = model.scale_inputs(X), model.inducing_start(), dw.Noise(4)
    >>> for layer in model.layers:
    ...     state, log_ratio = layer.sample_inducing(inducing, noise)
    ...     rows = layer.sample_rows(state, rows, noise)
    ...     inducing = state.outputs
    >>> log_ratio.shape, inducing.shape, rows.shape
    (torch.Size([4]), torch.Size([4, 5, 2]), torch.Size([4, 20, 2]))
    """

    def __init__(self, name: str, jitter: float) -> None:
        super().__init__()
        self.name = name
        self.jitter = jitter

    @abstractmethod
    def sample_inducing(self, inducing: Any, noise: Noise) -> tuple[Any, Tensor]:
        r"""Sample this layer at the inducing points from its approximate posterior.

        Returns:
            A state with the sample in ``state.outputs`` (what the next layer receives and
            what the rows are conditioned on), and :math:`\log p - \log q`, ``(S,)`` or ``()``.
        """

    @abstractmethod
    def start_from(self, inducing: Any, features: Tensor) -> Any:
        """Set the posterior so that it starts close to ``features`` ``(P, width)`` at the inducing
        points, given the previous layer's starting values.

        Returns:
            This layer's starting values, for the next layer.
        """

    def draw_inducing(self, inducing: Any, noise: Noise) -> tuple[Any, Tensor]:
        r"""As :meth:`sample_inducing`, but with every inducing variable sampled, none integrated
        out: :math:`\log p - \log q` is then the log importance weight of the sample."""
        return self.sample_inducing(inducing, noise)

    @abstractmethod
    def sample_rows(self, state: Any, rows: Any, noise: Noise, joint: bool = False) -> Any:
        """Sample this layer at data rows from the prior given the inducing points.

        Rows are independent unless ``joint``, which samples them with their full covariance.
        """

    @abstractmethod
    def prior(self, kernel_matrix: Tensor) -> torch.distributions.Distribution:
        """Prior of this layer at points whose kernel matrix is ``(..., N, N)``."""


@dataclass(frozen=True)
class GaussianState:
    r"""What rows need to know of a sampled layer: :math:`m_t = (H K_{it})^\top w`,
    :math:`v_t = k_{tt} - |H k_{it}|^2`; where known, ``closed`` says the same for less."""

    inputs: Any
    projection: Tensor
    weights: Tensor
    outputs: Any = None
    closed: linalg.ClosedForm | None = None


class GaussianRows(Layer):
    r"""A layer whose rows are Gaussian given the inducing points.

    .. math:: F_t \mid F_i \sim \mathcal{MN}\big(K_{ti} K_{ii}^{-1} F_i,\;
              s\,(K_{tt} - K_{ti} K_{ii}^{-1} K_{it}),\; I\big)

    with ``scale`` :math:`s = 1/\nu` in hidden layers, so that :math:`F F^\top` is the Gram matrix
    :math:`G` of the paper, and :math:`s = 1` in the output layer.
    """

    def __init__(self, kernel: Kernel, *, scale: float, name: str, jitter: float) -> None:
        super().__init__(name, jitter)
        self.kernel = kernel
        self.scale = scale

    def moments(self, state: GaussianState, rows: Rows) -> tuple[Tensor, Tensor]:
        """Mean ``(..., N, D)`` and variance ``(..., N, 1)`` of each row given the state."""
        cross, diagonal = self._lazy_kernel_rows(state, rows)
        mean, variance = linalg.condition(state.projection, cross, diagonal, state.weights)
        return mean, (self.scale * variance).unsqueeze(-1)

    def _lazy_kernel_rows(
        self, state: GaussianState, rows: Rows
    ) -> tuple[Tensor | linalg.GaussianKernel, Tensor]:
        if isinstance(rows, Tensor):
            return self.kernel.lazy_cross(state.inputs, rows), self.kernel.diagonal(rows)
        return kernel_rows(self.kernel, state.inputs, rows)

    def _draw_rows(self, state: GaussianState, rows: Rows, noise: Noise) -> Tensor:
        """Independent rows with the distribution that :meth:`moments` describes: in one operation
        where it is the one above, in two where a subclass has its own."""
        if type(self).moments is not GaussianRows.moments:
            mean, variance = self.moments(state, rows)
            return torch.addcmul(mean, variance.sqrt(), noise.row_normal(*mean.shape[-2:]))
        cross, diagonal = self._lazy_kernel_rows(state, rows)
        epsilon = noise.row_normal(diagonal.shape[-1], state.weights.shape[-1])
        return linalg.draw_rows(
            state.projection,
            cross,
            diagonal,
            state.weights,
            epsilon,
            scale=self.scale,
            closed=state.closed,
        )

    def joint_moments(self, state: GaussianState, rows: Rows) -> tuple[Tensor, Tensor]:
        """Mean ``(..., N, D)`` and covariance over rows for each column, ``(..., D, N, N)``, or
        ``(..., 1, N, N)`` where all columns share it."""
        cross, square = kernel_rows(self.kernel, state.inputs, rows, joint=True)
        projected = state.projection @ cross
        covariance = square - projected.mT @ projected
        return projected.mT @ state.weights, self.scale * covariance.unsqueeze(-3)

    def sample_rows(
        self, state: GaussianState, rows: Rows, noise: Noise, joint: bool = False
    ) -> Tensor:
        if not joint:
            return self._draw_rows(state, rows, noise)
        mean, covariance = self.joint_moments(state, rows)
        root = linalg.cholesky(
            covariance, jitter=self.jitter, what=f"the conditional covariance of {self.name}"
        )
        standard = noise.normal(*mean.shape[-2:])
        return mean + (root @ standard.mT.unsqueeze(-1)).squeeze(-1).mT
