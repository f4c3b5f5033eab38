r"""What every layer does: draw itself at the inducing points, then at rows given those.

A layer receives the previous layer's latent variable at the inducing points and returns a sample of
itself: an object that knows its own value there, :math:`\log p - \log q`, and how rows follow from
it. Nothing is kept on the layer. A latent variable is either features :math:`F` (with Gram matrix
:math:`G = F F^\top`), or a Gram matrix itself.

The last layer's sample sums up rows and their targets. The ELBO's data term is a function of these
sums (a ``Summary``), so rows can be visited in chunks, by several processes, in any order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from deepwishart.distributions import MatrixNormal
from deepwishart.kernels.base import Kernel
from deepwishart.kernels.points import Inducing, Rows
from deepwishart.likelihoods import Likelihood
from deepwishart.numerics import linalg
from deepwishart.numerics.gaussian import Cross, formed
from deepwishart.random import Randomness, RowRandomness

BOUNDS = ("titsias2009", "tight")
Summary = tuple[Tensor, ...]


def add_summaries(summaries: Iterable[Summary]) -> Summary:
    """The summary of all rows, from those of disjoint parts of them.

    >>> add_summaries([(torch.ones(2),), (torch.ones(2),)])
    (tensor([2., 2.]),)
    """
    return tuple(torch.stack(parts).sum(0) for parts in zip(*summaries, strict=True))


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
        if not joint:
            mean, variance = self.moments(rows)
            return torch.addcmul(mean, variance.sqrt(), random.normal(*mean.shape[-2:]))
        mean, covariance, prior = self.joint_moments(rows)
        root = linalg.cholesky(
            covariance,
            jitter=self.layer.jitter,
            relative_to=prior.unsqueeze(-3),
            what=f"the conditional covariance of {self.layer.name}",
        )
        epsilon = random.normal(*mean.shape[-2:])
        return mean + (root @ epsilon.mT.unsqueeze(-1)).squeeze(-1).mT


class OutputSample(ABC):
    """Samples of the output layer at the inducing points, as far as they are sampled at all.

    >>> from deepwishart.kernels import SquaredExponential
    >>> from deepwishart.layers import GPOutputLayer
    >>> from deepwishart.likelihoods import Gaussian
    >>> x, likelihood = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None], Gaussian()
    >>> sample = GPOutputLayer(SquaredExponential(), x.sin()).sample(x, Randomness(10))
    >>> parts = [sample.summarise(part, part.sin(), likelihood) for part in x.split(2)]
    >>> sample.data_term(add_summaries(parts), likelihood).shape
    torch.Size([])
    >>> sample.predictor(None, likelihood).moments(x)[0].shape
    torch.Size([5, 1])
    """

    #: :math:`\mathbb E_Q \log p(u)/q(u)`, where it is not part of :meth:`data_term`.
    log_ratio: Tensor

    @abstractmethod
    def summarise(self, rows: Rows, targets: Tensor, likelihood: Likelihood) -> Summary:
        """Sums over rows, which add up over disjoint parts of the data.

        Args:
            rows: the last hidden layer at some rows.
            targets: their targets ``(N, D)``.
            likelihood: the model's.
        """

    @abstractmethod
    def data_term(self, summary: Summary, likelihood: Likelihood) -> Tensor:
        r""":math:`\mathbb E_Q \log p(y \mid f)`, or a bound that integrates :math:`f`, from the
        sums over all rows; ``(S,)``."""

    @abstractmethod
    def predictor(self, summary: Summary | None, likelihood: Likelihood) -> GaussianSample:
        """The posterior of the latent function at any row.

        Args:
            summary: of all training rows; ``None`` where :attr:`OutputLayer.needs_rows` is false.
            likelihood: the model's.
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


class OutputLayer(NamedPart, ABC):
    """The last layer: Gaussian processes given the layer below.

    Check one of your own with :func:`deepwishart.testing.check_output_layer`.

    >>> from deepwishart.kernels import SquaredExponential
    >>> from deepwishart.layers import CollapsedOutputLayer, GPOutputLayer
    >>> GPOutputLayer(SquaredExponential(), torch.zeros(5, 1)).needs_rows
    False
    >>> CollapsedOutputLayer(SquaredExponential(), width=1).needs_rows
    True
    """

    #: Whether the bound and predictions need all training rows at once.
    needs_rows = False

    @property
    @abstractmethod
    def priors(self) -> Sequence[KernelPart]:
        """The priors of the columns, in order: one, or one for each group of them."""

    @abstractmethod
    def start_from(self, inducing: Inducing, latents: Tensor, precision: float) -> None:
        """Start close to ``latents`` ``(P, D)`` at the inducing points, as if these had been
        observed with this precision.

        Args:
            inducing: the starting values of the layer below.
            latents: what the latent functions are to be.
            precision: of them.
        """

    @abstractmethod
    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> OutputSample:
        """Samples of this layer at the inducing points, as :meth:`Layer.sample` makes them of a
        hidden layer; ``integrate=False`` is for layers that have inducing variables to draw."""


class KernelOutputLayer(KernelPart, OutputLayer):
    """An output layer with one kernel for all columns.

    Args:
        kernel: kernel applied to the previous layer.
        width: number of columns.
        bound: ``"titsias2009"``, linear in what inducing points leave unexplained, or ``"tight"``
            (:mod:`deepwishart.layers.collapsed_output`,
            :class:`~deepwishart.layers.gaussian.InducingOutputSample`).
        name: how errors call this layer.
        jitter: relative jitter on kernel matrices.
    """

    def __init__(
        self,
        kernel: Kernel,
        width: int,
        *,
        bound: str = "titsias2009",
        name: str = "the output layer",
        jitter: float = 1e-6,
    ) -> None:
        super().__init__(kernel, width, variance=1.0, name=name, jitter=jitter)
        self.tight = bound == "tight"

    @property
    def priors(self) -> Sequence[KernelPart]:
        return [self]
