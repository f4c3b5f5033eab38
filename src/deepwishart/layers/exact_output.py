r"""The output layer of a single layer whose inducing points are all distinct rows: the Gaussian
process itself.

Row t has the input of inducing point i(t); :math:`n_i` rows share it, with mean target
:math:`\bar y_i`. With :math:`V = K + \operatorname{diag}(\sigma^2 / n_i)`, the log evidence is

.. math:: \log \mathcal N(\bar y; 0, V)
          - \tfrac12 \sum_i \big((n_i - 1) \log 2\pi\sigma^2 + \log n_i\big)
          - \frac{\sum_t y_t^2 - \sum_i n_i \bar y_i^2}{2 \sigma^2} .

Counts, sums of targets and of their squares are all that it needs of rows: a thousand rows at fifty
inputs cost what fifty rows cost. There is one factorisation, of a matrix with the noise on its
diagonal. :class:`~deepwishart.layers.CollapsedOutputLayer` has to factorise K first, whose
jitter is unexplained variance that it divides by the noise; here noise may fall to where V cannot
be factorised any more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from deepwishart.kernels import Kernel
from deepwishart.layers.base import (
    GaussianSample,
    Inducing,
    KernelOutputLayer,
    OutputSample,
    Rows,
    Summary,
)
from deepwishart.layers.collapsed_output import noise_of
from deepwishart.layers.gaussian import ProjectedSample
from deepwishart.layers.stacked_output import StackedSample
from deepwishart.likelihoods import Likelihood
from deepwishart.numerics import linalg
from deepwishart.numerics.collapsed import log_density
from deepwishart.random import Randomness


class _Sums(NamedTuple):
    """Number of rows, and sum of their targets, at each distinct input; the targets' squares."""

    counts: Tensor
    totals: Tensor
    squares: Tensor


class ExactOutputLayer(KernelOutputLayer):
    """A Gaussian process with Gaussian noise, without approximation.

    Args:
        kernel: kernel of the inputs.
        width: number of target columns.
        name: how errors call this layer.
        jitter: relative jitter on the kernel matrix, of the size of rounding.

    >>> from deepwishart.kernels import SquaredExponential
    >>> from deepwishart.likelihoods import Gaussian
    >>> layer = ExactOutputLayer(SquaredExponential(dtype=torch.float64), width=1)
    >>> x, likelihood = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None], Gaussian(1)
    >>> sample = layer.sample(x, Randomness(1))
    >>> summary = sample.summarise(x, x.sin(), likelihood)
    >>> evidence = torch.distributions.MultivariateNormal(
    ...     torch.zeros(5, dtype=torch.float64),
    ...     layer.kernel.square(x) + likelihood.noise * torch.eye(5, dtype=torch.float64),
    ... ).log_prob(x.sin().squeeze(-1))
    >>> bool((sample.data_term(summary, likelihood) - evidence).abs() < 1e-9)
    True
    """

    needs_rows = True

    def __init__(
        self, kernel: Kernel, width: int, *, name: str = "the output layer", jitter: float = 1e-14
    ) -> None:
        super().__init__(kernel, width, name=name, jitter=jitter)

    def start_from(self, inducing: Inducing, latents: Tensor, precision: float) -> None:
        """Nothing is learned but the kernel."""

    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> ExactSample:
        if not isinstance(inducing, Tensor) or inducing.ndim != 2:
            raise ValueError(
                "The exact output layer is for models of one layer, which sees the inputs; deeper "
                "ones need output='collapsed' or 'inducing'."
            )
        points = inducing.detach()
        return ExactSample(self, points, points.new_zeros(()))


@dataclass(eq=False)
class ExactSample(OutputSample):
    """The distinct inputs; there is nothing to sample."""

    layer: ExactOutputLayer
    points: Tensor
    log_ratio: Tensor

    def summarise(self, rows: Rows, targets: Tensor, likelihood: Likelihood) -> Summary:
        places, counts = self._places(rows), self.points.new_zeros(len(self.points))
        totals = self.points.new_zeros(len(self.points), targets.shape[1])
        ones = counts.new_ones(len(places))
        return _Sums(
            counts.index_add(0, places, ones),
            totals.index_add(0, places, targets),
            targets.square().sum(0),
        )

    def _places(self, rows: Rows) -> Tensor:
        """The number of the inducing point that each row is."""
        if not isinstance(rows, Tensor):
            raise TypeError("Rows of the exact output layer are inputs.")
        every = torch.cat([self.points, rows.detach()])
        groups = torch.unique(every, dim=0, return_inverse=True)[1]
        own, others = groups.split([len(self.points), len(rows)])
        places = torch.full_like(groups, -1)
        places[own] = torch.arange(len(own), device=own.device)
        if (places[others] < 0).any():
            raise ValueError(
                f"{self.layer.name} is exact where all distinct rows are inducing points; here "
                f"{len(own)} points do not hold {int((places[others] < 0).sum())} of the rows. Use "
                "more inducing points, or output='collapsed'."
            )
        return places[others]

    def data_term(self, summary: Summary, likelihood: Likelihood) -> Tensor:
        sums, noise = _Sums(*summary), noise_of(likelihood)
        log_noise = (2.0 * math.pi * noise).log()
        seen = sums.counts.clamp_min(1.0)
        means = sums.totals / seen.unsqueeze(-1)
        more, lost = (sums.counts - 1.0).clamp_min(0.0).sum(), seen.log().sum()
        within = (sums.squares - (sums.totals * means).sum(0)).clamp_min(0.0)
        what = f"the covariance of targets in {self.layer.name}"
        between = [log_density(*each, what=what) for each in self._columns(sums, noise)]
        found = torch.stack(between) - 0.5 * (more * log_noise + lost + within / noise)
        return found.sum()

    def _columns(self, sums: _Sums, noise: Tensor) -> list[tuple[Tensor, Tensor]]:
        """V and the mean targets of each column, at inputs that have rows."""
        present = sums.counts > 0
        counts = sums.counts[present].unsqueeze(-1)
        kernel = self.layer.covariance(self.points[present])
        covariances = [kernel + (each / counts).squeeze(-1).diag() for each in noise]
        return list(zip(covariances, (sums.totals[present] / counts).split(1, -1), strict=True))

    def predictor(self, summary: Summary | None, likelihood: Likelihood) -> GaussianSample:
        if summary is None:
            raise ValueError(f"{self.layer.name} predicts from the sums over its training rows.")
        sums = _Sums(*summary)
        points = self.points[sums.counts > 0]
        what, columns = f"the covariance of targets in {self.layer.name}", []
        for covariance, means in self._columns(sums, noise_of(likelihood)):
            inverse = linalg.factor(covariance, what=what).inverse
            known = inverse, inverse @ means
            columns.append(ProjectedSample(self.layer, points, self.log_ratio, *known))
        return StackedSample(self.layer, points, self.log_ratio, tuple(columns))
