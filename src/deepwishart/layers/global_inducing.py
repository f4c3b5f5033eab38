r"""Gaussian process layers with the global-inducing posterior (Ober & Aitchison, 2021 ICML).

The posterior is what exact GP regression on learned pseudo-observations would give:
:math:`w = M^\top v` observed as :math:`M^\top u` with unit noise, i.e. pseudo-targets :math:`v`
with precision :math:`\Lambda = M M^\top`, shared by all columns. With :math:`\Sigma = sK` and
:math:`B = I + M^\top \Sigma M`:

.. math:: Q(u) = \mathcal N(S \Lambda v, S), \qquad S = (\Sigma^{-1} + \Lambda)^{-1}
          = \Sigma - \Sigma M B^{-1} M^\top \Sigma.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from deepwishart import linalg
from deepwishart.distributions import MatrixNormal
from deepwishart.kernels import Kernel
from deepwishart.layers.base import GaussianRows, GaussianState, Inducing, kernel_inducing
from deepwishart.noise import Noise

__all__ = ["GPOutputLayer", "GlobalInducingLayer"]


class _GlobalInducing(GaussianRows):
    """Pseudo-targets and their precision, common to hidden and output layers."""

    def __init__(
        self,
        kernel: Kernel,
        pseudo_targets: Tensor,
        *,
        precision: float,
        scale: float,
        name: str,
        jitter: float,
    ) -> None:
        super().__init__(kernel, scale=scale, name=name, jitter=jitter)
        size = pseudo_targets.shape[0]
        self.pseudo_targets = nn.Parameter(pseudo_targets.clone())
        self.log_precision = nn.Parameter(pseudo_targets.new_full((size, 1), math.log(precision)))
        self.precision_shape = nn.Parameter(torch.eye(size, dtype=pseudo_targets.dtype))

    @property
    def precision_root(self) -> Tensor:
        r""":math:`M` with :math:`\Lambda = M M^\top`, ``(P, P)``: a matrix that starts at the
        identity, with rows scaled by :math:`e^{\text{log\_precision}/2}` so that a precision can
        change by orders of magnitude in few steps."""
        return (0.5 * self.log_precision).exp() * self.precision_shape

    @torch.no_grad()
    def start_from(self, inducing: Inducing, features: Tensor) -> Tensor:
        self.pseudo_targets.copy_(features)
        return features

    def observe(self, kernel: Tensor) -> linalg.Observations:
        r"""Condition :math:`\mathcal N(0, \Sigma)`, :math:`\Sigma = sK`, on the
        pseudo-observations."""
        return linalg.observe(
            kernel,
            self.precision_root,
            self.pseudo_targets,
            scale=self.scale,
            what=f"the posterior of {self.name}",
        )

    def draw_inducing(self, inducing: Inducing, noise: Noise) -> tuple[GaussianState, Tensor]:
        r"""Sample :math:`u \sim Q` by Matheron's rule, so that :math:`\Sigma` is never inverted.

        With :math:`f \sim \mathcal N(0, \Sigma)` and :math:`\epsilon \sim \mathcal N(0, I)`,

        .. math:: u = f + \Sigma M B^{-1} (M^\top v - M^\top f - \epsilon)

        and, since :math:`p(u)/q(u) = p(w)/p(w \mid u)` at the pseudo-observation
        :math:`w = M^\top v`,

        .. math:: \log \frac{p(u)}{q(u)} = \log \mathcal N(M^\top v; 0, B)
                  - \log \mathcal N(M^\top v; M^\top u, I).
        """
        kernel = kernel_inducing(self.kernel, inducing, self.jitter)
        prior = linalg.factor(kernel, what=f"the kernel matrix of {self.name}")
        M, v = self.precision_root, self.pseudo_targets
        observed = self.observe(kernel)
        f = math.sqrt(self.scale) * (prior.lower @ noise.normal(*v.shape))
        residual = M.mT @ (v - f) - noise.normal(*v.shape)
        gain = observed.projection.mT @ (observed.inverse @ residual)
        u = f + self.scale * (kernel @ gain)
        log_ratio = 0.5 * (
            (M.mT @ (v - u)).square().sum((-2, -1))
            - observed.whitened.square().sum((-2, -1))
            - v.shape[1] * observed.log_det
        )
        weights = prior.inverse @ u
        closed = linalg.closed_form(kernel, prior.inverse, u, weights)
        return GaussianState(inducing, prior.inverse, weights, u, closed), log_ratio

    def prior(self, kernel_matrix: Tensor) -> MatrixNormal:
        covariance = linalg.add_jitter(kernel_matrix, self.jitter) * self.scale
        lower = linalg.cholesky(covariance, what=f"the prior of {self.name}")
        loc = lower.new_zeros(*lower.shape[:-1], self.pseudo_targets.shape[-1])
        return MatrixNormal(loc, lower)


class GlobalInducingLayer(_GlobalInducing):
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
        name: how errors call this layer.
        jitter: relative jitter on :math:`K_{ii}`.

    >>> from deepwishart.kernels import SquaredExponential
    >>> points = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    >>> layer = GlobalInducingLayer(SquaredExponential(), pseudo_targets=points.expand(5, 2))
    >>> state, log_ratio = layer.sample_inducing(points, Noise(10))
    >>> state.outputs.shape, log_ratio.shape
    (torch.Size([10, 5, 2]), torch.Size([10]))
    """

    def __init__(
        self,
        kernel: Kernel,
        pseudo_targets: Tensor,
        *,
        precision: float = 100.0,
        name: str = "layer 1",
        jitter: float = 1e-6,
    ) -> None:
        super().__init__(
            kernel,
            pseudo_targets,
            precision=precision * pseudo_targets.shape[1],
            scale=1.0 / pseudo_targets.shape[1],
            name=name,
            jitter=jitter,
        )

    def sample_inducing(self, inducing: Inducing, noise: Noise) -> tuple[GaussianState, Tensor]:
        return self.draw_inducing(inducing, noise)


class GPOutputLayer(_GlobalInducing):
    r"""The output layer, with :math:`u` integrated out.

    Given the layer below, everything about :math:`u` is Gaussian, so nothing is sampled:

    .. math:: f_t \sim \mathcal N\big(k_t^\top M B^{-1} M^\top v,\;
              k_{tt} - k_t^\top M B^{-1} M^\top k_t\big), \qquad
              \mathbb E_Q \log \tfrac{p(u)}{q(u)} = \tfrac12\big(|B^{-1} M^\top v|^2
              - |L_B^{-1} M^\top v|^2\big)
              + \tfrac D2 \big(P - \operatorname{tr} B^{-1} - \log|B|\big).

    This has the expectation of the paper's sampled output layer and less variance, and
    neither inverts nor factorises :math:`K_{ii}`.

    Args:
        kernel: kernel applied to the previous layer.
        pseudo_targets: initial :math:`v`, ``(P, D)``.
        precision: initial precision of the pseudo-targets.
        name: how errors call this layer.
        jitter: relative jitter, used only where rows are sampled jointly.

    >>> from deepwishart.kernels import SquaredExponential
    >>> points = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    >>> layer = GPOutputLayer(SquaredExponential(), pseudo_targets=points.sin(), precision=1e4)
    >>> state, log_ratio = layer.sample_inducing(points, Noise(10))
    >>> mean, variance = layer.moments(state, points)
    >>> bool(torch.allclose(mean, points.sin(), atol=0.01)), log_ratio.shape
    (True, torch.Size([]))
    """

    def __init__(
        self,
        kernel: Kernel,
        pseudo_targets: Tensor,
        *,
        precision: float = 9.0,
        name: str = "the output layer",
        jitter: float = 1e-6,
    ) -> None:
        super().__init__(
            kernel, pseudo_targets, precision=precision, scale=1.0, name=name, jitter=jitter
        )

    def sample_inducing(self, inducing: Inducing, noise: Noise) -> tuple[GaussianState, Tensor]:
        observed = self.observe(kernel_inducing(self.kernel, inducing))
        w = observed.whitened
        size, columns = self.pseudo_targets.shape
        log_ratio = 0.5 * (
            observed.solved
            - w.square().sum((-2, -1))
            + columns * (size - observed.trace - observed.log_det)
        )
        return GaussianState(inducing, observed.projection, w), log_ratio
