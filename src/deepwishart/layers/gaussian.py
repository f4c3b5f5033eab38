r"""Layers whose rows are Gaussian given the layer below, the Wishart process's and those of deep
GPs: their samples, and the observations that a posterior may be made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from deepwishart.layers.base import (
    GaussianSample,
    Inducing,
    JointMoments,
    KernelPart,
    OutputSample,
    Rows,
    Summary,
)
from deepwishart.likelihoods import Likelihood
from deepwishart.numerics import linalg
from deepwishart.numerics.observe import Observations, observe
from deepwishart.numerics.rows import Conditional, condition, draw_rows
from deepwishart.random import Randomness, RowRandomness


@dataclass(eq=False)
class KernelSample(GaussianSample):
    """Samples of a layer whose columns have one kernel."""

    layer: KernelPart

    def unexplained(self, rows: Rows) -> Tensor:
        covariance = self.layer.covariance(self.inputs)
        inverse = linalg.factor(covariance, what=f"the kernel matrix of {self.layer.name}").inverse
        cross, own = self.layer.row_covariance(self.inputs, rows)
        nothing = own.new_zeros(covariance.shape[-1], 1)
        return condition(inverse, cross, own, nothing)[1].unsqueeze(-1)


@dataclass(eq=False)
class ProjectedSample(KernelSample):
    r"""Rows with mean :math:`(H \Sigma_{it})^\top w` and variance
    :math:`\Sigma_{tt} - |H \Sigma_{it}|^2`, where :math:`H` ``(..., P, P)`` is the ``projection``
    and :math:`w` ``(..., P, D)`` are the ``weights``."""

    projection: Tensor
    weights: Tensor

    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        cross, own = self.layer.row_covariance(self.inputs, rows)
        mean, variance = condition(self.projection, cross, own, self.weights)
        return mean, variance.unsqueeze(-1)

    def joint_moments(self, rows: Rows) -> JointMoments:
        cross, square = self.layer.joint_covariance(self.inputs, rows)
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
        self, layer: KernelPart, inputs: Inducing, log_ratio: Tensor, given: Conditional
    ) -> None:
        super().__init__(layer, inputs, log_ratio, given.inverse, given.weights)
        self.given = given

    @property
    def inducing(self) -> Tensor:
        return self.given.root

    def rows(self, rows: Rows, random: RowRandomness, joint: bool = False) -> Tensor:
        if joint:
            return super().rows(rows, random, joint)
        cross, own = self.layer.row_covariance(self.inputs, rows)
        epsilon = random.normal(own.shape[-1], self.given.root.shape[-1])
        return draw_rows(self.given, cross, own, epsilon)


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


class PseudoObservations(nn.Module):
    r"""Learned observations :math:`M^\top v` of a Gaussian, with unit noise; :math:`v` is
    ``(P, D)``, and :math:`\Lambda = M M^\top` at first a multiple of the identity."""

    def __init__(self, targets: Tensor, precision: float) -> None:
        super().__init__()
        size = targets.shape[0]
        self.targets = nn.Parameter(targets.clone())
        self.log_precision = nn.Parameter(targets.new_full((size, 1), math.log(precision)))
        self.precision_shape = nn.Parameter(torch.eye(size, dtype=targets.dtype))

    @property
    def root(self) -> Tensor:
        r""":math:`M`, ``(P, P)``: a matrix that starts at the identity, with rows scaled by
        :math:`e^{\text{log\_precision}/2}` so that a precision can change by orders of magnitude in
        few steps."""
        return (0.5 * self.log_precision).exp() * self.precision_shape

    @torch.no_grad()
    def set(self, targets: Tensor, precision: float) -> None:
        r"""Set :math:`v` and a precision that is the same for all."""
        self.targets.copy_(targets)
        self.log_precision.fill_(math.log(precision))

    def observe(self, covariance: Tensor, what: str) -> Observations:
        r"""Condition :math:`\mathcal N(0, \Sigma)` on them."""
        return observe(covariance, self.root, self.targets, what=f"the posterior of {what}")

    def draw(self, covariance: Tensor, random: Randomness, what: str) -> tuple[Conditional, Tensor]:
        r"""Sample :math:`u \sim Q` by Matheron's rule, so that :math:`\Sigma` is never inverted.

        With :math:`f \sim \mathcal N(0, \Sigma)` and :math:`\epsilon \sim \mathcal N(0, I)`,

        .. math:: u = f + \Sigma M B^{-1} (M^\top v - M^\top f - \epsilon)

        and, since :math:`p(u)/q(u) = p(w)/p(w \mid u)` at the pseudo-observation
        :math:`w = M^\top v`,

        .. math:: \log \frac{p(u)}{q(u)} = \log \mathcal N(M^\top v; 0, B)
                  - \log \mathcal N(M^\top v; M^\top u, I).

        Returns:
            :math:`u` for rows to be conditioned on, and :math:`\log p(u)/q(u)`, ``(S,)``.
        """
        prior = linalg.factor(covariance, what=f"the kernel matrix of {what}")
        M, v = self.root, self.targets
        observed = self.observe(covariance, what)
        f = prior.lower @ random.normal(*v.shape)
        residual = M.mT @ (v - f) - random.normal(*v.shape)
        u = f + covariance @ (observed.projection.mT @ (observed.inverse @ residual))
        log_ratio = 0.5 * (
            (M.mT @ (v - u)).square().sum((-2, -1))
            - observed.whitened.square().sum((-2, -1))
            - v.shape[1] * observed.log_det
        )
        return Conditional.of(covariance, prior.inverse, u), log_ratio
