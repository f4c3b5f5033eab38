r"""What every likelihood does, to expect its log density under Gaussian latents and to predict; and
the simplest, Gaussian noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Normal

from deepwishart._support.arguments import whole_number
from deepwishart._support.parameters import (
    KERNEL_LOGARITHM,
    Declaration,
    Declarations,
    log_parameter,
)

#: Logarithms of variances and rates beyond this are treated as if they were this.
LARGEST_LOG = 40.0


class Mixture(NamedTuple):
    r"""A predictive distribution as a weighted sum of simple ones.

    Attributes:
        components: with batch shape ``(K, ..., N, D)``, one entry per target.
        log_weights: ``(K,)``, with :math:`\sum_k w_k = 1`.
    """

    components: Distribution
    log_weights: Tensor


class Likelihood(nn.Module, ABC):
    r"""How targets :math:`y` arise from latent functions :math:`f`.

    A new likelihood states :meth:`distribution`, the law of the targets given the latents; the
    rest follows by Gauss--Hermite quadrature with nodes :math:`x_q` and weights :math:`w_q`,

    .. math:: \mathbb E_{\mathcal N(f; m, v)} \log p(y \mid f)
              \approx \sum_q w_q \log p(y \mid m + \sqrt v\, x_q), \qquad
              \int p(y \mid f)\, \mathcal N(f; m, v)\, df
              \approx \sum_q w_q\, p(y \mid m + \sqrt v\, x_q),

    which is for likelihoods with one latent column per target. Others, and those with a closed
    form, override the two methods. Check one with :func:`deepwishart.testing.check_likelihood`.
    Parameters are in double precision, until ``to`` moves them.

    Args:
        num_outputs: number of target columns D.
        num_latents: number of latent columns; one per target if ``None``.

    >>> class Logistic(Likelihood):
    ...     def distribution(self, latents):
    ...         return torch.distributions.Bernoulli(logits=latents)
    >>> likelihood = Logistic(num_outputs=1)
    >>> zero, one = torch.zeros(3, 1), torch.ones(3, 1)
    >>> likelihood.expected_log_prob(one, mean=zero, variance=one).shape
    torch.Size([3])
    """

    declares: ClassVar[Declarations] = {"*": Declaration("kernel")}
    #: Number of quadrature nodes; densities that are narrow, or have a kink, need more.
    num_nodes = 32
    #: Whether targets may be shifted and scaled; not so for classes and counts.
    location_scale = True
    #: Whether ``expected_log_prob`` is the expectation; if not, it is a lower bound that is reached
    #: where latents have no variance.
    exact_expectation = True

    def __init__(self, num_outputs: int = 1, num_latents: int | None = None) -> None:
        super().__init__()
        self.num_outputs = whole_number("num_outputs", num_outputs)
        self.num_latents = num_outputs if num_latents is None else num_latents

    @property
    def num_columns(self) -> int:
        """Number of columns of ``y`` in training: the targets, and what else there is to know."""
        return self.num_outputs

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Numbers of neighbouring latent columns that have one kernel and one posterior covariance
        in common; all have, unless a likelihood says otherwise."""
        return (self.num_latents,)

    @abstractmethod
    def distribution(self, latents: Tensor) -> Distribution:
        """The targets given the latent functions, ``(..., N, num_latents)``: a distribution with
        batch shape ``(..., N, D)``, targets being independent."""

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        r""":math:`\mathbb E_{\mathcal N(f; m, v)} \log p(y \mid f)`, summed over target columns.

        Args:
            y: targets, ``(N, D)``.
            mean: of the latents, ``(..., N, num_latents)``.
            variance: likewise, or ``(..., N, 1)``.

        Returns:
            ``(..., N)``.
        """
        latents, log_weights = self._nodes(mean, variance)
        terms = self.distribution(latents).log_prob(y)
        return torch.tensordot(log_weights.exp(), terms.sum(-1), dims=1)

    def curvature(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor | None:
        r"""Weights :math:`w`, ``(..., N, num_latents)``, with which the expected log density is
        about :math:`-\tfrac12 w v` as a function of the latents' variance; 0 for latents of which
        it says nothing, ``None`` where nothing is known. Shapes as in
        :meth:`expected_log_prob`."""
        return None

    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        """The targets, for latents with these moments (shapes as in :meth:`expected_log_prob`)."""
        latents, log_weights = self._nodes(mean, variance)
        return Mixture(self.distribution(latents), log_weights)

    def initial_latents(self, y: Tensor) -> Tensor:
        """Latents ``(N, num_latents)`` for the output layer to start from, given targets."""
        return y if self.num_latents == self.num_outputs else y.new_zeros(len(y), self.num_latents)

    def start_from(self, y: Tensor) -> None:
        """Set parameters to what suits targets, before training; nothing unless overridden."""

    def noise_level(self) -> float:
        """The noise's typical standard deviation, for the record of training; 0 without noise."""
        return 0.0

    def _nodes(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Latents at the quadrature nodes, ``(Q, ..., N, D)``, and log weights ``(Q,)``."""
        if self.num_latents != self.num_outputs:
            raise NotImplementedError(
                f"{type(self).__name__} has {self.num_latents} latent columns for "
                f"{self.num_outputs} targets: it has to define expected_log_prob and predictive, "
                "since one-dimensional quadrature does not apply."
            )
        return gauss_hermite(mean, variance, self.num_nodes)


class Gaussian(Likelihood):
    r""":math:`p(y \mid f) = \prod_d \mathcal N(y_d; f_d, \sigma_d^2)`, one noise per output column.

    Args:
        num_outputs: number of target columns.
        noise: initial noise *variance* :math:`\sigma^2`.

    >>> likelihood = Gaussian(1, noise=0.5)
    >>> y, mean, variance = torch.zeros(3, 1), torch.zeros(3, 1), torch.zeros(3, 1)
    >>> likelihood.expected_log_prob(y, mean, variance).shape
    torch.Size([3])
    """

    declares: ClassVar[Declarations] = {"*": KERNEL_LOGARITHM}

    def __init__(self, num_outputs: int = 1, noise: float = 0.1) -> None:
        super().__init__(num_outputs)
        self.log_noise = log_parameter("noise", noise, self.num_outputs, dtype=torch.float64)

    @property
    def noise(self) -> Tensor:
        r"""Noise variance :math:`\sigma^2`, ``(D,)``."""
        return self.log_noise.exp()

    def distribution(self, latents: Tensor) -> Normal:
        return Normal(latents, (0.5 * self.log_noise).exp().expand_as(latents), validate_args=False)

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        r""":math:`\log\mathcal N(y; m, \sigma^2) - v / 2\sigma^2`, summed over output columns."""
        squares = (y - mean).square() + variance
        terms = squares * (-0.5 * (-self.log_noise).exp())
        return terms.sum(-1) - 0.5 * (self.log_noise + math.log(2 * math.pi)).sum()

    def curvature(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        r""":math:`1 / \sigma^2`."""
        return (-self.log_noise).exp().expand_as(mean)

    def predictive(self, mean: Tensor, variance: Tensor) -> Mixture:
        r""":math:`\mathcal N(m, v + \sigma^2)`."""
        deviation = (variance + self.noise).sqrt().expand_as(mean)
        one = Normal(mean.unsqueeze(0), deviation.unsqueeze(0), validate_args=False)
        return Mixture(one, mean.new_zeros(1))

    def noise_level(self) -> float:
        return float(self.noise.detach().sqrt().mean())


def gauss_hermite(mean: Tensor, variance: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Values ``(Q, ...)`` of a Gaussian variable at quadrature nodes, and log weights ``(Q,)``."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(num_nodes)
    x = mean.new_tensor(nodes).reshape(-1, *(1 for _ in mean.shape))
    # Logarithms are taken before rounding: single precision knows no number as small as the
    # outermost weights of many nodes.
    return mean + deviation(variance) * x, mean.new_tensor(np.log(weights / weights.sum()))


def deviation(variance: Tensor) -> Tensor:
    """The root of a variance. Where that is exactly zero, a root would have no gradient."""
    return variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()


def bounded_exp(x: Tensor) -> Tensor:
    """:math:`e^x`, and from 40 on its tangent there: values and gradients stay finite in single
    precision, and the gradient points back."""
    inside = x.clamp_max(LARGEST_LOG)
    return inside.exp() * (1.0 + (x - inside))
