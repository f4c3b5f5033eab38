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
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from deepwishart.kernels import Kernel
from deepwishart.layers.base import Inducing, Rows
from deepwishart.layers.gaussian import GaussianPrior, GaussianSample, JointMoments
from deepwishart.layers.output import GaussianOutputLayer, OutputSample, Summary
from deepwishart.likelihoods import Gaussian, Likelihood
from deepwishart.numerics import linalg
from deepwishart.numerics.collapsed import row_sums
from deepwishart.numerics.condition import condition
from deepwishart.numerics.draw_rows import condition_on_form
from deepwishart.numerics.explained import explained
from deepwishart.numerics.gaussian import Cross
from deepwishart.random import Randomness

__all__ = ["CollapsedOutputLayer", "CollapsedSample"]


class _Sums(NamedTuple):
    r""":math:`A A^\top`, :math:`A y`, what the bound loses to what is unexplained, for each column,
    :math:`y^\top y` and N."""

    gram: Tensor
    products: Tensor
    loss: Tensor
    squares: Tensor
    number: Tensor


class CollapsedOutputLayer(GaussianOutputLayer):
    r"""A Gaussian process whose inducing outputs :math:`u` and values :math:`f` are integrated out;
    nothing is learned but its kernel.

    Its data term is never below that of :class:`~deepwishart.layers.GPOutputLayer` for the same
    hidden layers, and it needs all rows: there are no minibatches.

    Args:
        kernel: kernel applied to the previous layer.
        width: number of target columns.
        inducing_inputs: inducing points of its own, ``(P, D_in)``, to start from (``dsvi``);
            ``None`` for those of the layer below.
        bound: ``"titsias2009"``, linear in what is unexplained, or ``"tight"``.
        name: how errors call this layer.
        jitter: relative jitter on :math:`K_{ii}`.

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
    inducing_inputs: nn.Parameter | None

    def __init__(
        self,
        kernel: Kernel,
        width: int,
        *,
        inducing_inputs: Tensor | None = None,
        bound: str = "titsias2009",
        name: str = "the output layer",
        jitter: float = 1e-6,
    ) -> None:
        super().__init__(kernel, width, variance=1.0, name=name, jitter=jitter)
        self.bound = bound
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
        covariance = self.covariance.inducing(inducing, self.jitter)
        what = f"the kernel matrix of {self.name}"
        known = inducing, covariance
        if self.bound == "tight":
            inverse = linalg.factor(covariance, what=what).inverse
            return TightCollapsedSample(self, *known, inverse, covariance.new_zeros(()))
        inverse = linalg.factor(covariance.detach(), what=what).inverse
        return CollapsedSample(self, *known, inverse, covariance.new_zeros(()))


@dataclass(frozen=True)
class CollapsedSample(OutputSample):
    r"""The kernel matrix :math:`K_{ii}` of the sampled inducing points, with :math:`L^{-1}`, of
    which the sums over rows need no gradient."""

    layer: CollapsedOutputLayer
    inputs: Inducing
    covariance: Tensor
    inverse: Tensor
    log_ratio: Tensor

    def summarise(self, rows: Rows, targets: Tensor, likelihood: Likelihood) -> Summary:
        cross, own = self.layer.covariance.rows(self.inputs, rows)
        gram, products = row_sums(self.covariance, self.inverse, cross, targets)
        loss = self.loss(cross, own, gram, _noise(likelihood))
        number = targets.new_tensor(targets.shape[0])
        return _Sums(gram, products, loss, targets.square().sum(0), number)

    def loss(self, cross: Cross, own: Tensor, gram: Tensor, noise: Tensor) -> Tensor:
        r""":math:`\tfrac12 \sum_t d_t / \sigma^2`, ``(..., D)``."""
        unexplained = own.sum(-1) - gram.diagonal(dim1=-2, dim2=-1).sum(-1)
        return 0.5 * unexplained.unsqueeze(-1) / noise

    def data_term(self, summary: Summary, likelihood: Likelihood) -> Tensor:
        sums, noise = _Sums(*summary), _noise(likelihood)
        what = f"the posterior of {self.layer.name}"
        columns = (
            explained(sums.gram, sums.products, noise, what=what)
            - 0.5 * sums.number * (2 * math.pi * noise).log()
            - 0.5 * sums.squares / noise
            - sums.loss
        )
        return columns.sum(-1)

    def predictor(self, summary: Summary | None, likelihood: Likelihood) -> GaussianSample:
        if summary is None:
            raise ValueError(f"{self.layer.name} predicts from the sums over its training rows.")
        sums, noise = _Sums(*summary), _noise(likelihood)
        inverse = self.inverse.detach()
        eye = torch.eye(sums.gram.shape[-1], dtype=noise.dtype, device=noise.device)
        inner = sums.gram.unsqueeze(-3) / noise[:, None, None] + eye
        fitted = linalg.factor(inner, what=f"the posterior of {self.layer.name}").inverse
        weights = fitted.mT @ (fitted @ (sums.products / noise).mT.unsqueeze(-1))
        return CollapsedFunction(
            self.layer, self.inputs, self.log_ratio, inverse, fitted, weights.squeeze(-1).mT
        )


class TightCollapsedSample(CollapsedSample):
    """With the logarithm of what is unexplained, row by row."""

    def loss(self, cross: Cross, own: Tensor, gram: Tensor, noise: Tensor) -> Tensor:
        r""":math:`\tfrac12 \sum_t \log(1 + d_t / \sigma^2)`, ``(..., D)``."""
        _, unexplained = condition(self.inverse, cross, own, own.new_zeros(gram.shape[-1], 1))
        return 0.5 * (unexplained.unsqueeze(-1) / noise).log1p().sum(-2)


@dataclass(frozen=True)
class CollapsedFunction(GaussianSample):
    r"""The posterior of the function given all training rows, per posterior sample: with
    :math:`a_t = L^{-1} k_{it}`,

    .. math:: m_t = a_t^\top w, \qquad v_t = k_{tt} - |a_t|^2 + |L_B^{-1} a_t|^2, \qquad
              w = L_B^{-\top} L_B^{-1} A y / \sigma^2

    from ``inverse`` :math:`L^{-1}`, ``fitted`` :math:`L_B^{-1}` of each column, ``(..., D, P, P)``,
    and ``weights`` :math:`w`, ``(..., P, D)``.
    """

    layer: GaussianPrior
    inverse: Tensor
    fitted: Tensor
    weights: Tensor

    @cached_property
    def _forms(self) -> list[tuple[Tensor, Tensor]]:
        r""":math:`L^{-\top} (I - B^{-1}) L^{-1}` and :math:`L^{-\top} w` of each column."""
        whole = self.inverse.mT @ self.inverse
        parts = self.fitted @ self.inverse.unsqueeze(-3)
        forms = whole.unsqueeze(-3) - parts.mT @ parts
        solved = (self.inverse.mT @ self.weights).split(1, dim=-1)
        return list(zip(forms.unbind(-3), solved, strict=True))

    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        cross, own = self.layer.covariance.rows(self.inputs, rows)
        if own.dtype == torch.float64 and not torch.is_grad_enabled():
            columns = [condition_on_form(*form, cross, own) for form in self._forms]
            means, variances = zip(*columns, strict=True)
            return torch.cat(means, dim=-1), torch.stack(variances, dim=-1)
        mean, unexplained = condition(self.inverse, cross, own, self.weights)
        spread = []
        for column in range(self.layer.width):
            projection = self.fitted[..., column, :, :] @ self.inverse
            _, rest = condition(projection, cross, own, self.weights)
            spread.append(own - rest)
        return mean, unexplained.unsqueeze(-1) + torch.stack(spread, dim=-1)

    def unexplained(self, rows: Rows) -> Tensor:
        cross, own = self.layer.covariance.rows(self.inputs, rows)
        return condition(self.inverse, cross, own, self.weights)[1].unsqueeze(-1)

    def joint_moments(self, rows: Rows) -> JointMoments:
        cross, square = self.layer.covariance.joint(self.inputs, rows)
        projected = (self.inverse @ cross).unsqueeze(-3)
        spread = self.fitted @ projected
        covariance = square.unsqueeze(-3) - projected.mT @ projected + spread.mT @ spread
        return JointMoments(projected.squeeze(-3).mT @ self.weights, covariance, square)


def _noise(likelihood: Likelihood) -> Tensor:
    if not isinstance(likelihood, Gaussian):
        raise ValueError(
            f"The collapsed output layer integrates Gaussian noise; {type(likelihood).__name__} "
            "needs build(..., output='inducing')."
        )
    return likelihood.noise
