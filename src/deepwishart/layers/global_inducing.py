r"""Hidden layer of a deep GP with the global-inducing posterior (Ober & Aitchison, 2021 ICML).

The posterior is what exact GP regression on learned pseudo-observations would give:
:math:`w = M^\top v` observed as :math:`M^\top u` with unit noise, i.e. pseudo-targets :math:`v`
with precision :math:`\Lambda = M M^\top`, shared by all columns. With :math:`\Sigma = sK` and
:math:`B = I + M^\top \Sigma M`:

.. math:: Q(u) = \mathcal N(S \Lambda v, S), \qquad S = (\Sigma^{-1} + \Lambda)^{-1}
          = \Sigma - \Sigma M B^{-1} M^\top \Sigma.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart.kernels import Kernel
from deepwishart.layers.base import Inducing, Layer
from deepwishart.layers.gaussian import ConditionalSample, PseudoObservations
from deepwishart.random import Randomness

_LEAST_NOISE = 0.01  # of a start, relative to the prior's variance


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
