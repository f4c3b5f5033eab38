r"""What every output layer does: sum up rows and their targets, and predict.

The ELBO's data term is a function of sums over rows (a ``Summary``), whichever way the output layer
treats its inducing variables. Rows can therefore be visited in chunks, by several processes, in any
order, and only the sums are kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from deepwishart.kernels import Kernel
from deepwishart.layers.base import Inducing, KernelPart, NamedPart, Rows
from deepwishart.layers.gaussian import GaussianSample
from deepwishart.likelihoods import Likelihood
from deepwishart.random import Randomness

__all__ = [
    "BOUNDS",
    "InducingOutputSample",
    "KernelOutputLayer",
    "OutputLayer",
    "OutputSample",
    "Summary",
    "add_summaries",
]

BOUNDS = ("titsias2009", "tight")
Summary = tuple[Tensor, ...]


def add_summaries(summaries: Iterable[Summary]) -> Summary:
    """The summary of all rows, from those of disjoint parts of them.

    >>> add_summaries([(torch.ones(2),), (torch.ones(2),)])
    (tensor([2., 2.]),)
    """
    return tuple(torch.stack(parts).sum(0) for parts in zip(*summaries, strict=True))


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
            (:mod:`deepwishart.layers.collapsed_output`, :class:`InducingOutputSample`).
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


class InducingOutputSample(OutputSample):
    r"""Outputs whose posterior is fixed by the inducing points: rows are independent given it.

    Of a row's variance :math:`v_t = s_t + d_t` only :math:`s_t` comes from :math:`q(u)`; the rest
    is the prior's given :math:`u`, :math:`d_t = k_{tt} - |L^{-1} k_t|^2`. A tight bound
    (Titsias, 2025) gives rows a variance of their own, :math:`c_t d_t` in the place of
    :math:`d_t`, and holds less the divergence of the two,

    .. math:: \mathbb E_{\mathcal N(f_t; m_t, s_t + c_t d_t)} \log p(y_t \mid f_t)
              - \tfrac12 (c_t - 1 - \log c_t), \qquad c_t = \frac1{1 + w_t d_t}.

    Where the log density is :math:`-\tfrac12 w_t f_t^2` plus a linear function of :math:`f_t`, this
    :math:`c_t` is the best, and the bound that of :math:`c_t = 1` with
    :math:`\tfrac12 \log(1 + w_t d_t)` instead of :math:`\tfrac12 w_t d_t`. Elsewhere the better of
    both is taken, row by row.

    Args:
        function: the posterior of the latent functions.
        tight: whether the bound is to be tight.
    """

    def __init__(self, function: GaussianSample, tight: bool) -> None:
        self.function = function
        self.tight = tight
        self.log_ratio = function.log_ratio

    def summarise(self, rows: Rows, targets: Tensor, likelihood: Likelihood) -> Summary:
        r""":math:`\sum_t \mathbb E_{\mathcal N(f_t; m_t, v_t)} \log p(y_t \mid f_t)`, or the tight
        bound's."""
        mean, variance = self.function.moments(rows)
        plain = likelihood.expected_log_prob(targets, mean, variance)
        weight = likelihood.curvature(targets, mean, variance) if self.tight else None
        if weight is None:
            return (plain.sum(-1),)
        free = torch.minimum(self.function.unexplained(rows), variance)
        shrink = 1.0 / (1.0 + weight * free)
        tight = likelihood.expected_log_prob(targets, mean, variance - (1.0 - shrink) * free)
        cost = 0.5 * (shrink - 1.0 - shrink.log()).sum(-1)
        return (torch.maximum(plain, tight - cost).sum(-1),)

    def data_term(self, summary: Summary, likelihood: Likelihood) -> Tensor:
        return summary[0]

    def predictor(self, summary: Summary | None, likelihood: Likelihood) -> GaussianSample:
        return self.function
