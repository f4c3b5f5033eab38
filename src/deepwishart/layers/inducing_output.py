r"""The output layer with learned pseudo-observations, for any likelihood and for minibatches."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from deepwishart.kernels import Kernel
from deepwishart.layers.base import Inducing, KernelOutputLayer
from deepwishart.layers.gaussian import (
    ConditionalSample,
    InducingOutputSample,
    ProjectedSample,
    PseudoObservations,
)
from deepwishart.random import Randomness


class GPOutputLayer(KernelOutputLayer):
    r"""The output layer of the paper, with :math:`u` integrated out.

    Given the layer below, everything about :math:`u` is Gaussian
    (:mod:`deepwishart.layers.global_inducing`), so nothing is sampled:

    .. math:: f_t \sim \mathcal N\big(k_t^\top M B^{-1} M^\top v,\;
              k_{tt} - k_t^\top M B^{-1} M^\top k_t\big), \qquad
              \mathbb E_Q \log \tfrac{p(u)}{q(u)} = \tfrac12\big(|B^{-1} M^\top v|^2
              - |L_B^{-1} M^\top v|^2\big)
              + \tfrac D2 \big(P - \operatorname{tr} B^{-1} - \log|B|\big).

    This has the expectation of the paper's sampled output layer and less variance, and
    neither inverts nor factorises :math:`K_{ii}`.

    Args:
        kernel: kernel applied to the previous layer.
        pseudo_targets: initial :math:`v`, one column for each of the likelihood's latent functions.
        precision: initial precision of the pseudo-targets.
        **options: ``bound``, ``name`` and ``jitter`` of
            :class:`~deepwishart.layers.base.KernelOutputLayer`. A tight bound factorises
            :math:`K_{ii}` after all; jitter is used only where that is factorised, and where rows
            are sampled jointly or :math:`u` is drawn.

    >>> import torch
    >>> from deepwishart.kernels import SquaredExponential
    >>> points = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    >>> layer = GPOutputLayer(SquaredExponential(), pseudo_targets=points.sin(), precision=1e4)
    >>> sample = layer.sample(points, Randomness(10))
    >>> mean, variance = sample.function.moments(points)
    >>> bool(torch.allclose(mean, points.sin(), atol=0.01)), sample.log_ratio.shape
    (True, torch.Size([]))
    """

    def __init__(
        self, kernel: Kernel, pseudo_targets: Tensor, *, precision: float = 9.0, **options: Any
    ) -> None:
        super().__init__(kernel, pseudo_targets.shape[1], **options)
        self.pseudo = PseudoObservations(pseudo_targets, precision)

    def start_from(self, inducing: Inducing, latents: Tensor, precision: float) -> None:
        self.pseudo.set(latents, precision)

    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> InducingOutputSample:
        if not integrate:
            given, log_ratio = self.pseudo.draw(self.covariance(inducing), random, self.name)
            drawn = ConditionalSample(self, inducing, log_ratio, given)
            return InducingOutputSample(drawn, tight=False)
        observed = self.pseudo.observe(self.covariance(inducing, jitter=0.0), self.name)
        w = observed.whitened
        size, columns = self.pseudo.targets.shape
        solved, trace = (observed.inverse.mT @ w).square(), observed.inverse.square()
        log_ratio = 0.5 * (
            (solved - w.square()).sum((-2, -1))
            + columns * (size - trace.sum((-2, -1)) - observed.log_det)
        )
        function = ProjectedSample(self, inducing, log_ratio, observed.projection, w)
        return InducingOutputSample(function, self.tight)
