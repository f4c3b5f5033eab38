r"""What every layer does: draw itself at the inducing points, then at rows given those.

A layer receives the previous layer's latent variable at the inducing points and returns a sample of
itself: an object that knows its own value there, :math:`\log p - \log q`, and how rows follow from
it. Nothing is kept on the layer. A latent variable is either features :math:`F` (with Gram matrix
:math:`G = F F^\top`), or a Gram matrix itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from deepwishart.kernels.base import Kernel
from deepwishart.kernels.points import GramInducing, GramRows, Inducing, Rows
from deepwishart.random import Randomness, RowRandomness

__all__ = ["GramInducing", "GramRows", "Inducing", "Layer", "LayerSample", "NamedPart", "Rows"]


class LayerSample(ABC):
    """Posterior samples of a layer at the inducing points.

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
    """A part of a model that errors can name."""

    #: What errors call it.
    name: str
    #: Relative jitter on its kernel matrices.
    jitter: float


class Layer(NamedPart, ABC):
    r"""One step of Algorithm 1: :math:`G_{ii} \sim \mathrm Q`, then rows given :math:`G_{ii}`.

    Check a layer of your own with :func:`deepwishart.testing.check_layer`.

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

    #: The kernel that is applied to the layer below.
    kernel: Kernel

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

    @abstractmethod
    def prior(self, kernel_matrix: Tensor) -> torch.distributions.Distribution:
        """Prior of this layer at points whose kernel matrix is ``(..., N, N)``."""
