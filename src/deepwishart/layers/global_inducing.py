r"""Hidden layer of a deep GP with the global-inducing posterior (Ober & Aitchison, 2021 ICML).

The posterior is what exact GP regression on learned pseudo-observations would give:
:math:`w = M^\top v` observed as :math:`M^\top u` with unit noise, i.e. pseudo-targets :math:`v`
with precision :math:`\Lambda = M M^\top`, shared by all columns. With :math:`\Sigma = sK` and
:math:`B = I + M^\top \Sigma M`:

.. math:: Q(u) = \mathcal N(S \Lambda v, S), \qquad S = (\Sigma^{-1} + \Lambda)^{-1}
          = \Sigma - \Sigma M B^{-1} M^\top \Sigma.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from deepwishart.kernels import Kernel
from deepwishart.layers.base import Inducing, Layer
from deepwishart.layers.gaussian import ConditionalSample
from deepwishart.numerics import linalg
from deepwishart.numerics.observe import Observations, observe
from deepwishart.numerics.rows import Conditional
from deepwishart.random import Randomness

__all__ = ["GlobalInducingLayer", "PseudoObservations"]

_LEAST_NOISE = 0.01  # of a start, relative to the prior's variance


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


class GlobalInducingLayer(Layer):
    r"""Hidden layer of the deep GP, with exactly the prior of
    :class:`~deepwishart.layers.WishartLayer`:

    .. math:: P(F_\ell \mid F_{\ell-1}) = \prod_\lambda
              \mathcal N(f_\lambda; 0, \tfrac1\nu K(F_{\ell-1})), \qquad
              Q(F_\ell \mid F_{\ell-1}) = \prod_\lambda
              \mathcal N(f_\lambda; S \Lambda v_\lambda, S).

    Args:
        kernel: kernel applied to the previous layer.
        pseudo_targets: initial :math:`v`, ``(P, width)``.
        precision: initial precision of the pseudo-targets, per unit of prior variance.
        **options: ``name`` and ``jitter`` of :class:`~deepwishart.layers.Layer`.

    >>> from deepwishart.kernels import SquaredExponential
    >>> points = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    >>> layer = GlobalInducingLayer(SquaredExponential(), pseudo_targets=points.expand(5, 2))
    >>> sample = layer.sample(points, Randomness(10))
    >>> sample.inducing.shape, sample.log_ratio.shape
    (torch.Size([10, 5, 2]), torch.Size([10]))
    """

    def __init__(
        self, kernel: Kernel, pseudo_targets: Tensor, *, precision: float = 100.0, **options: Any
    ) -> None:
        super().__init__(kernel, pseudo_targets.shape[1], **options)
        self.pseudo = PseudoObservations(pseudo_targets, precision * self.width)

    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> ConditionalSample:
        given, log_ratio = self.pseudo.draw(self.covariance(inducing), random, self.name)
        return ConditionalSample(self, inducing, log_ratio, given)

    @torch.no_grad()
    def start_from(self, inducing: Inducing, features: Tensor, noise: float = 0.01) -> Tensor:
        self.pseudo.set(features, self.width / max(_LEAST_NOISE, noise))
        return features
