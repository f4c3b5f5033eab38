"""Drawing a Bartlett factor and scoring it as one operation, for training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart import _native
from deepwishart.distributions.bartlett import standard_gamma, standard_normal

__all__ = ["ScoredFactor", "draw_scored_factor"]


def draw_scored_factor(
    num_samples: int,
    concentration: Tensor,
    rate: Tensor,
    loc: Tensor,
    scale: Tensor,
    *,
    tilt: float = 0.0,
    sticking_the_landing: bool = False,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Draws of one generalised Bartlett factor and the log density of :math:`A A^\top`, relative
    to :math:`\prod_j A_{jj}^\text{tilt}`.

    Args:
        num_samples: number of draws S.
        concentration: :math:`\alpha`, ``(m,)``.
        rate: :math:`\beta`, ``(m,)``.
        loc: :math:`\mu`, ``(P, m)``; read below the diagonal only.
        scale: :math:`\sigma`, ``(P, m)``, likewise.
        tilt: subtract this times :math:`\sum_j \log A_{jj}` from the log density.
        sticking_the_landing: detach the parameters of the density, so that gradients flow along
            the sample only.
        generator: source of randomness; PyTorch's default generator if ``None``.

    Returns:
        the factors ``(S, P, m)`` and the log densities ``(S,)``.

    >>> vector, matrix = torch.ones(2), torch.ones(3, 2)
    >>> factor, log_prob = draw_scored_factor(4, vector, vector, matrix, matrix)
    >>> factor.shape, log_prob.shape
    (torch.Size([4, 3, 2]), torch.Size([4]))
    """
    gamma = standard_gamma(concentration.expand(num_samples, -1), generator)
    # In single precision, which is several times faster and plenty for Monte Carlo noise.
    like = torch.empty((), device=loc.device)
    noise = standard_normal(torch.Size([num_samples, *loc.shape]), like, generator).to(loc.dtype)
    factor, log_q = ScoredFactor.apply(
        gamma, concentration, rate, loc, scale, noise, tilt, sticking_the_landing
    )
    return factor, log_q


class ScoredFactor(torch.autograd.Function):
    r"""From noise to a generalised Bartlett factor and the log density of :math:`A A^\top`.

    .. math:: A_{i>j} = \mu_{ij} + \sigma_{ij} \epsilon_{ij}, \qquad A_{jj} = \sqrt{g_j / \beta_j}

    .. math:: \log q = \sum_j \big[p_j \log A_{jj} - \beta_j A_{jj}^2 + \alpha_j \log\beta_j
              - \log\Gamma(\alpha_j)\big] + \sum_{i>j} \big[-\tfrac12 \epsilon_{ij}^2
              - \log\sigma_{ij} - \tfrac12 \log 2\pi\big], \quad
              p_j = 2(\alpha_j - 1) - (P - j) - \text{tilt}

    Gradients, for incoming :math:`\bar A` and :math:`\bar q`: along the sample the density's slopes
    are :math:`-\epsilon/\sigma` and :math:`p_j / A_{jj} - 2 \beta_j A_{jj}`, so that

    .. math:: \bar\mu = \bar A - \bar q\, \epsilon/\sigma, \quad
              \bar\sigma = \bar A\, \epsilon - \bar q\, \epsilon^2/\sigma, \quad
              h_j = \tfrac12 \bar A_{jj} A_{jj} + \bar q\,(\tfrac12 p_j - g_j), \quad
              \bar g_j = h_j / g_j, \quad \bar\beta_j = -h_j / \beta_j

    is all there is when sticking the landing. Otherwise the density's own dependence on its
    parameters is added: :math:`\bar q\,\epsilon/\sigma` to :math:`\bar\mu`,
    :math:`\bar q (\epsilon^2 - 1)/\sigma` to :math:`\bar\sigma`,
    :math:`\bar q (\alpha_j - g_j)/\beta_j` to :math:`\bar\beta_j` and
    :math:`\bar q (\log g_j - \psi(\alpha_j))` to :math:`\bar\alpha_j`. The gamma variable
    :math:`g_j` carries its implicit gradient in :math:`\alpha_j` by itself.

    The arguments of ``apply`` are ``gamma`` ``(S, m)``, ``concentration`` and ``rate`` ``(m,)``,
    ``loc`` and ``scale`` ``(P, m)``, ``noise`` ``(S, P, m)``, ``tilt`` and
    ``sticking_the_landing``. It returns the factor ``(S, P, m)`` and the log density ``(S,)``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        gamma: Tensor,
        concentration: Tensor,
        rate: Tensor,
        loc: Tensor,
        scale: Tensor,
        noise: Tensor,
        tilt: float,
        sticking_the_landing: bool,
    ) -> tuple[Tensor, Tensor]:
        gamma, concentration, rate, loc, scale, noise = (
            t.contiguous() for t in (gamma, concentration, rate, loc, scale, noise)
        )
        ctx.save_for_backward(gamma, concentration, rate, scale, noise)
        ctx.tilt, ctx.sticking_the_landing = tilt, sticking_the_landing
        native = _native.operations(noise)
        if native is not None:
            drawn: tuple[Tensor, Tensor] = native.scored_factor_forward(
                gamma, concentration, rate, loc, scale, noise, tilt
            )
            return drawn
        num_rows, rank = loc.shape
        diagonal = (gamma / rate).sqrt()
        factor = torch.addcmul(loc, scale, noise).tril_(-1)
        factor.diagonal(dim1=-2, dim2=-1).copy_(diagonal)
        num_normal = num_rows * rank - rank * (rank + 1) // 2
        constant = (concentration * rate.log() - concentration.lgamma()).sum()
        constant -= scale.log().tril_(-1).sum() + 0.5 * num_normal * math.log(2.0 * math.pi)
        # beta A_jj^2 is the standard gamma variable itself.
        own = (_power(concentration, num_rows, tilt) * diagonal.log() - gamma).sum(-1)
        return factor, own + constant - 0.5 * noise.tril(-1).square().sum((-2, -1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_factor: Tensor, grad_log_q: Tensor) -> tuple[Tensor | None, ...]:
        gamma, concentration, rate, scale, _ = ctx.saved_tensors
        weight = grad_log_q if ctx.sticking_the_landing else torch.zeros_like(grad_log_q)
        grad_gamma, grad_rate, grad_loc, grad_scale = _along_the_sample(
            ctx.saved_tensors,
            ctx.tilt,
            grad_factor.contiguous(),
            grad_log_q.contiguous(),
            weight.contiguous(),
        )
        grad_concentration = None
        if not ctx.sticking_the_landing:
            slope = grad_log_q.unsqueeze(-1)
            grad_scale -= (slope.sum() / scale).tril_(-1)
            grad_rate += (slope * (concentration - gamma)).sum(0) / rate
            grad_concentration = (slope * (gamma.log() - concentration.digamma())).sum(0)
        return grad_gamma, grad_concentration, grad_rate, grad_loc, grad_scale, None, None, None


def _power(concentration: Tensor, num_rows: int, tilt: float) -> Tensor:
    r""":math:`p_j`."""
    last = num_rows - 1 - concentration.shape[0]
    beyond = torch.arange(num_rows - 1, last, -1, device=concentration.device)
    return 2.0 * (concentration - 1.0) - beyond - tilt


def _along_the_sample(
    saved: Sequence[Tensor],
    tilt: float,
    grad_factor: Tensor,
    slope: Tensor,
    weight: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r""":math:`\bar g, \bar\beta, \bar\mu, \bar\sigma`, with ``slope`` for :math:`\bar q` on the
    diagonal and ``weight`` below it."""
    gamma, concentration, rate, scale, noise = saved
    native = _native.operations(noise)
    if native is not None:
        gradients: tuple[Tensor, Tensor, Tensor, Tensor] = native.scored_factor_backward(
            *saved, tilt, grad_factor, slope, weight
        )
        return gradients
    power = _power(concentration, scale.shape[0], tilt)
    own = grad_factor.diagonal(dim1=-2, dim2=-1) * (gamma / rate).sqrt()
    half = 0.5 * own + slope.unsqueeze(-1) * (0.5 * power - gamma)  # of log g_j
    along = torch.where(
        torch.ones_like(scale, dtype=torch.bool).tril_(-1),
        grad_factor - weight[:, None, None] * noise / scale,
        0.0,
    )
    return half / gamma, -half.sum(0) / rate, along.sum(0), (along * noise).sum(0)
