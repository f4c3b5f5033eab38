r"""What every layer does: draw itself at the inducing points, then at rows given those.

A layer receives the previous layer's latent variable at the inducing points and returns a sample of
itself: an object that knows its own value there, :math:`\log p - \log q`, and how rows follow from
it. Nothing is kept on the layer. A latent variable is either features :math:`F` (with Gram matrix
:math:`G = F F^\top`), or a Gram matrix itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn
from torch.distributions import Distribution

from deepwishart.distributions import MatrixNormal
from deepwishart.kernels.base import Kernel
from deepwishart.kernels.points import GramInducing, GramRows, Inducing, Rows
from deepwishart.numerics import linalg
from deepwishart.numerics.gaussian import Cross, formed
from deepwishart.random import Randomness, RowRandomness

__all__ = [
    "GramInducing",
    "GramRows",
    "Inducing",
    "KernelPart",
    "Layer",
    "LayerSample",
    "NamedPart",
    "Rows",
]


class LayerSample(ABC):
    """Posterior samples of a layer at the inducing points.

    >>> import torch
    >>> from deepwishart.kernels import SquaredExponential
    >>> from deepwishart.layers import GlobalInducingLayer
    >>> points = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    >>> layer, random = GlobalInducingLayer(SquaredExponential(), points), Randomness(10)
    >>> sample = layer.sample(points, random)
    >>> sample.inducing.shape, sample.rows(points[:3], random.rows()).shape
    (torch.Size([10, 5, 1]), torch.Size([10, 3, 1]))
    """

    #: :math:`\log p - \log q` of what was sampled, and in expectation of what was integrated
    #: out; ``(S,)``, or ``()`` where it is the same for all samples.
    log_ratio: Tensor

    @property
    @abstractmethod
    def inducing(self) -> Inducing:
        """The layer at the inducing points, which is what the next layer receives."""

    @abstractmethod
    def rows(self, rows: Rows, random: RowRandomness, joint: bool = False) -> Rows:
        """The layer at data rows, sampled from the prior given the inducing points.

        Args:
            rows: the rows as the previous layer sampled them.
            random: their randomness.
            joint: sample rows with their full covariance, instead of one by one.
        """


class NamedPart(nn.Module):
    """A part of a model that errors can name: of ``width`` columns, of features or of latent
    functions, with a relative ``jitter`` on kernel matrices."""

    def __init__(self, width: int, *, name: str, jitter: float) -> None:
        super().__init__()
        self.width = width
        self.name = name
        self.jitter = jitter


class KernelPart(NamedPart):
    r"""A part with a kernel on what is below it, and the covariance :math:`\Sigma = s K`.

    Its prior is :math:`P(F) = \prod_\lambda \mathcal N(f_\lambda; 0, s K)`, unless a subclass has
    another. ``variance`` is :math:`s`: :math:`1/\nu` in hidden layers, so that :math:`F F^\top` is
    the Gram matrix :math:`G` of the paper, and 1 in the output layer.
    """

    def __init__(
        self, kernel: Kernel, width: int, *, variance: float, name: str, jitter: float
    ) -> None:
        super().__init__(width, name=name, jitter=jitter)
        self.kernel = kernel
        self.variance = variance

    def covariance(self, inducing: Inducing, jitter: float | None = None) -> Tensor:
        r""":math:`\Sigma_{ii}` with relative jitter, this part's if ``None``."""
        jitter = self.jitter if jitter is None else jitter
        return self.kernel.square(inducing, jitter=jitter, variance=self.variance)

    def row_covariance(self, inducing: Inducing, rows: Rows) -> tuple[Cross, Tensor]:
        r""":math:`\Sigma_{it}`, possibly not yet formed, and the diagonal of
        :math:`\Sigma_{tt}`."""
        cross = self.kernel.cross(inducing, rows, variance=self.variance)
        return cross, self.kernel.diagonal(rows, variance=self.variance)

    def joint_covariance(self, inducing: Inducing, rows: Rows) -> tuple[Tensor, Tensor]:
        r""":math:`\Sigma_{it}` and all of :math:`\Sigma_{tt}`, of rows sampled jointly."""
        cross = self.kernel.cross(inducing, rows, variance=self.variance)
        return formed(cross), self.kernel.square(rows, variance=self.variance)

    def prior(self, kernel_matrix: Tensor) -> Distribution:
        """The prior at points whose kernel matrix is ``(..., N, N)``."""
        covariance = linalg.add_jitter(kernel_matrix, self.jitter) * self.variance
        lower = linalg.cholesky(covariance, what=f"the prior of {self.name}")
        return MatrixNormal(lower.new_zeros(*lower.shape[:-1], self.width), lower)


class Layer(KernelPart, ABC):
    r"""One step of Algorithm 1: :math:`G_{ii} \sim \mathrm Q`, then rows given :math:`G_{ii}`.

    A subclass states its posterior; ``examples/custom_layer.py`` has one in thirty lines. Check
    yours with :func:`deepwishart.testing.check_layer`.

    Args:
        kernel: the kernel :math:`K` that is applied to the layer below.
        width: number of columns :math:`\nu`.
        variance: :math:`s` of the covariance :math:`\Sigma = s K`; :math:`1/\nu` if ``None``.
        name: what error messages call the layer.
        jitter: relative jitter on kernel matrices.

    >>> import torch
    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=3, width=2, num_inducing=5)
    >>> random = dw.Randomness(num_samples=4)
    >>> inducing, rows, of_rows = model.first_inducing(), model.scale_inputs(X), random.rows()
    >>> for index, layer in enumerate(model.hidden):
    ...     sample = layer.sample(inducing, random)
    ...     rows = sample.rows(rows, of_rows.at(index))
    ...     inducing = sample.inducing
    >>> sample.log_ratio.shape, inducing.shape, rows.shape
    (torch.Size([4]), torch.Size([4, 5, 2]), torch.Size([4, 20, 2]))
    """

    def __init__(
        self,
        kernel: Kernel,
        width: int,
        *,
        variance: float | None = None,
        name: str = "layer 1",
        jitter: float = 1e-6,
    ) -> None:
        variance = 1.0 / width if variance is None else variance
        super().__init__(kernel, width, variance=variance, name=name, jitter=jitter)

    @abstractmethod
    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> LayerSample:
        r"""Samples of this layer at the inducing points, from its approximate posterior.

        Args:
            inducing: the previous layer at the inducing points.
            random: source of randomness, which says how many samples.
            integrate: integrate out in closed form what can be. Otherwise every inducing variable
                is drawn, and ``log_ratio`` is the log importance weight of the draw.
        """

    @abstractmethod
    def start_from(self, inducing: Inducing, features: Tensor, noise: float = 0.03) -> Inducing:
        """Set the posterior so that it starts close to ``features`` ``(P, width)`` at the inducing
        points, given the previous layer's starting values.

        Args:
            inducing: those values.
            features: what this layer is to start close to.
            noise: variance, relative to the prior's, with which ``features`` count as observed.

        Returns:
            This layer's starting values, for the next layer.
        """
