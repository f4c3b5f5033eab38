r"""The output layer with everything integrated out, for Gaussian noise and all rows at once.

Given a sample of the hidden layers, the output is Gaussian process regression with inducing points,
and the best :math:`q(u)` is known (Titsias, 2009). With :math:`K_{ii} = L L^\top`,
:math:`A = L^{-1} K_{it}`, noise :math:`\sigma^2` and
:math:`B = I + A A^\top/\sigma^2 = L_B L_B^\top`, the bound with that :math:`q(u)` is

.. math:: \log \mathcal N(y; 0, A^\top A + \sigma^2 I)
          - \frac{\operatorname{tr}(K_{tt} - A^\top A)}{2 \sigma^2}
          = -\tfrac N2 \log 2\pi\sigma^2 - \tfrac12 \log|B| - \frac{y^\top y}{2\sigma^2}
          + \frac{|L_B^{-1} A y|^2}{2\sigma^4}
          - \frac{\sum_t k_{tt} - \operatorname{tr} A A^\top}{2 \sigma^2}.

Rows enter through :math:`A A^\top, A y, y^\top y`, N and the last term alone: that is the summary.

The last term is about what inducing points leave unexplained, :math:`d_t = k_{tt} - |a_t|^2` of row
t. With a variance of its own for every :math:`f_t` given :math:`u`, of which the best is known, it
becomes a logarithm (Titsias, 2025; Bui, Ashman and Turner, 2025),

.. math:: -\tfrac12 \sum_t \frac{d_t}{\sigma^2} \quad\to\quad
          -\tfrac12 \sum_t \log\Big(1 + \frac{d_t}{\sigma^2}\Big),

which is never below it and still a bound on the evidence; :math:`q(u)` and predictions stay as
they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from deepwishart._support.parameters import Declaration, Declarations
from deepwishart.kernels import Kernel
from deepwishart.layers.base import (
    GaussianSample,
    Inducing,
    KernelOutputLayer,
    OutputSample,
    Rows,
    Summary,
)
from deepwishart.layers.gaussian import ProjectedSample
from deepwishart.layers.stacked_output import StackedSample
from deepwishart.likelihoods import Gaussian, Likelihood
from deepwishart.numerics import linalg
from deepwishart.numerics.collapsed import explained, row_sums
from deepwishart.numerics.gaussian import formed
from deepwishart.numerics.rows import condition
from deepwishart.random import Randomness


class _Sums(NamedTuple):
    r""":math:`A A^\top`, :math:`A y`, what the bound loses to what is unexplained, for each column,
    :math:`y^\top y` and N."""

    gram: Tensor
    products: Tensor
    loss: Tensor
    squares: Tensor
    number: Tensor


class CollapsedOutputLayer(KernelOutputLayer):
    r"""A Gaussian process whose inducing outputs :math:`u` and values :math:`f` are integrated out;
    nothing is learned but its kernel.

    Its data term is never below that of :class:`~deepwishart.layers.GPOutputLayer` for the same
    hidden layers, and it needs all rows: there are no minibatches.

    Args:
        kernel: kernel applied to the previous layer.
        width: number of target columns.
        inducing_inputs: inducing points of its own, ``(P, D_in)``, to start from (``dsvi``);
            ``None`` for those of the layer below.
        **options: ``bound``, ``name`` and ``jitter`` of
            :class:`~deepwishart.layers.base.KernelOutputLayer`.

    >>> from deepwishart.kernels import SquaredExponential
    >>> layer = CollapsedOutputLayer(SquaredExponential(dtype=torch.float64), width=1)
    >>> x, likelihood = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None], Gaussian(1)
    >>> sample = layer.sample(x, Randomness(10))
    >>> summary = sample.summarise(x, x.sin(), likelihood)
    >>> evidence = torch.distributions.MultivariateNormal(
    ...     torch.zeros(5, dtype=torch.float64),
    ...     layer.kernel.square(x) + likelihood.noise * torch.eye(5, dtype=torch.float64),
    ... ).log_prob(x.sin().squeeze(-1))
    >>> bool((sample.data_term(summary, likelihood) - evidence).abs() < 1e-3)
    True
    """

    needs_rows = True
    declares: ClassVar[Declarations] = {"inducing_inputs": Declaration("inducing")}
    inducing_inputs: nn.Parameter | None

    def __init__(
        self, kernel: Kernel, width: int, *, inducing_inputs: Tensor | None = None, **options: Any
    ) -> None:
        super().__init__(kernel, width, **options)
        own = None if inducing_inputs is None else nn.Parameter(inducing_inputs.clone())
        self.register_parameter("inducing_inputs", own)

    def start_from(self, inducing: Inducing, latents: Tensor, precision: float) -> None:
        """Inducing points of its own start where the layer below does; nothing else is learned."""
        if self.inducing_inputs is not None and isinstance(inducing, Tensor):
            self.inducing_inputs.data.copy_(inducing)

    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> CollapsedSample:
        inducing = inducing if self.inducing_inputs is None else self.inducing_inputs
        covariance = self.covariance(inducing)
        # Sums over rows know the factor's gradient.
        what = f"the kernel matrix of {self.name}"
        inverse = linalg.factor(covariance.detach(), what=what).inverse
        return CollapsedSample(self, inducing, covariance, inverse, covariance.new_zeros(()))


@dataclass(eq=False)
class CollapsedSample(OutputSample):
    r"""The kernel matrix :math:`K_{ii}` of the sampled inducing points, with :math:`L^{-1}`."""

    layer: CollapsedOutputLayer
    inputs: Inducing
    covariance: Tensor
    inverse: Tensor
    log_ratio: Tensor

    def summarise(self, rows: Rows, targets: Tensor, likelihood: Likelihood) -> Summary:
        cross, own = self.layer.row_covariance(self.inputs, rows)
        gram, products, known = row_sums(self.covariance, self.inverse, cross, targets)
        noise, number = noise_of(likelihood), targets.new_tensor(targets.shape[0])
        if self.layer.tight:
            unexplained = (own - known).clamp_min(0.0).unsqueeze(-1)
            loss = 0.5 * (unexplained / noise).log1p().sum(-2)
        else:
            unexplained = own.sum(-1) - gram.diagonal(dim1=-2, dim2=-1).sum(-1)
            loss = 0.5 * unexplained.unsqueeze(-1) / noise
        return _Sums(gram, products, loss, targets.square().sum(0), number)

    def data_term(self, summary: Summary, likelihood: Likelihood) -> Tensor:
        sums, noise = _Sums(*summary), noise_of(likelihood)
        what = f"the posterior of {self.layer.name}"
        columns = (
            explained(sums.gram, sums.products, noise, what=what)
            - 0.5 * sums.number * (2 * math.pi * noise).log()
            - 0.5 * sums.squares / noise
            - sums.loss
        )
        return columns.sum(-1)

    def predictor(self, summary: Summary | None, likelihood: Likelihood) -> GaussianSample:
        r"""Per column :math:`m_t = a_t^\top w` and :math:`v_t = k_{tt} - |R^\top a_t|^2`, with
        :math:`a_t = L^{-1} k_{it}`, :math:`R R^\top = I - B^{-1}` and
        :math:`w = B^{-1} A y / \sigma^2`."""
        if summary is None:
            raise ValueError(f"{self.layer.name} predicts from the sums over its training rows.")
        sums, what = _Sums(*summary), f"the posterior of {self.layer.name}"
        eye = torch.eye(sums.gram.shape[-1], dtype=sums.gram.dtype, device=sums.gram.device)
        columns = []
        for noise, products in zip(noise_of(likelihood), sums.products.split(1, -1), strict=True):
            fitted = linalg.factor(sums.gram / noise + eye, what=what).inverse
            weights = fitted.mT @ (fitted @ (products / noise))
            left = eye - fitted.mT @ fitted
            # All but singular where data say next to nothing: jitter of the size of rounding.
            root = linalg.cholesky(left, jitter=10.0 * torch.finfo(left.dtype).eps, what=what)
            known = root.mT @ self.inverse, linalg.solve_lower(root, weights)
            columns.append(CollapsedFunction(self.layer, self.inputs, self.log_ratio, *known))
        return StackedSample(self.layer, self.inputs, self.log_ratio, tuple(columns))


class CollapsedFunction(ProjectedSample):
    """The posterior of one column of the function given all training rows, per posterior sample."""

    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        cross, own = self.layer.row_covariance(self.inputs, rows)
        # As squares of a product: quadratic forms round by more than the noise may be.
        mean, variance = condition(self.projection, formed(cross), own, self.weights)
        return mean, variance.unsqueeze(-1)


def noise_of(likelihood: Likelihood) -> Tensor:
    """The noise of each column, of a likelihood that can be integrated in closed form."""
    if not isinstance(likelihood, Gaussian):
        raise ValueError(
            f"This output layer integrates Gaussian noise; {type(likelihood).__name__} needs "
            "output='inducing'."
        )
    return likelihood.noise
