r"""The doubly stochastic deep GP layer (Salimbeni & Deisenroth, 2017), a baseline."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from deepwishart import linalg
from deepwishart.distributions import MatrixNormal
from deepwishart.kernels import Kernel
from deepwishart.layers.base import GaussianRows, GaussianState, Rows, kernel_rows
from deepwishart.noise import Noise

__all__ = ["DoublyStochasticLayer"]


class DoublyStochasticLayer(GaussianRows):
    r"""Whitened inducing outputs of its own, one full covariance per column:

    .. math:: u_d = \sqrt s\, L e_d, \quad K_{ZZ} = L L^\top, \quad
              q(e_d) = \mathcal N(m_d, R_d R_d^\top),

    .. math:: f_{td} \sim \mathcal N\big(\sqrt s\, a_t^\top m_d + x_t^\top W_d,\;
              s\,(k_{tt} - |a_t|^2 + |R_d^\top a_t|^2)\big), \qquad a_t = L^{-1} k_{Zt}.

    The layer ignores what the previous layer says about inducing points: its inducing inputs
    are parameters. The fixed matrix :math:`W` is the linear mean function with which
    Salimbeni & Deisenroth make depth trainable; without it the prior is the deep Wishart process's.

    Args:
        kernel: kernel applied to the previous layer's features.
        inducing_inputs: initial :math:`Z`, ``(P, D_in)``.
        width: number of columns.
        scale: prior variance factor :math:`s`: ``1 / width`` in hidden layers, 1 in the output.
        mean_weights: :math:`W`, ``(D_in, width)``, or ``None`` for a zero mean.
        initial_root: initial :math:`R_d` as a multiple of the identity.
        name: how errors call this layer.
        jitter: relative jitter on :math:`K_{ZZ}`.

    >>> from deepwishart.kernels import SquaredExponential
    >>> inputs = torch.linspace(-1, 1, 5)[:, None]
    >>> layer = DoublyStochasticLayer(SquaredExponential(), inputs, width=2, scale=0.5)
    >>> state, log_ratio = layer.sample_inducing(None, Noise(10, dtype=torch.float32))
    >>> bool(log_ratio.abs() < 1e-6)  # it starts at the prior
    True
    >>> layer.moments(state, torch.zeros(7, 1))[0].shape
    torch.Size([7, 2])
    """

    mean_weights: Tensor | None

    def __init__(
        self,
        kernel: Kernel,
        inducing_inputs: Tensor,
        width: int,
        *,
        scale: float = 1.0,
        mean_weights: Tensor | None = None,
        initial_root: float = 1.0,
        name: str = "layer 1",
        jitter: float = 1e-6,
    ) -> None:
        super().__init__(kernel, scale=scale, name=name, jitter=jitter)
        size, dtype = inducing_inputs.shape[0], inducing_inputs.dtype
        self.width = width
        self.inducing_inputs = nn.Parameter(inducing_inputs.clone())
        self.variational_mean = nn.Parameter(torch.zeros(size, width, dtype=dtype))
        self.root_lower = nn.Parameter(torch.zeros(width, size, size, dtype=dtype))
        self.log_root_diagonal = nn.Parameter(
            torch.full((width, size), math.log(initial_root), dtype=dtype)
        )
        self.register_buffer("mean_weights", mean_weights)

    @property
    def variational_root(self) -> Tensor:
        """:math:`R_d`, ``(width, P, P)``, lower triangular with positive diagonal."""
        diagonal = torch.diag_embed(self.log_root_diagonal.exp())
        return self.root_lower.tril(-1) + diagonal

    @torch.no_grad()
    def set_posterior(self, mean: Tensor, root: Tensor) -> None:
        r"""Set :math:`m` ``(P, width)`` and the lower-triangular :math:`R` ``(width, P, P)``."""
        self.variational_mean.copy_(mean)
        self.root_lower.copy_(root)
        self.log_root_diagonal.copy_(root.diagonal(dim1=-2, dim2=-1).log())

    @torch.no_grad()
    def start_from(self, inducing: Tensor, features: Tensor, ridge: float = 1e-2) -> Tensor:
        r"""Start at the GP regression on ``features`` at the inducing inputs, which become
        ``inducing``: :math:`m = \sqrt s L^\top (sK + \lambda \bar k I)^{-1} F`, with ``ridge``
        :math:`\lambda` relative to the prior variance."""
        self.inducing_inputs.copy_(inducing)
        kernel = self.scale * self.kernel.jittered_square(inducing, self.jitter)
        what = f"the kernel matrix of {self.name}"
        lower = linalg.cholesky(kernel, what=what)
        noisy = linalg.cholesky(linalg.add_jitter(kernel, ridge), what=what)
        mean = 0.0 if self.mean_weights is None else inducing @ self.mean_weights
        fitted = linalg.solve_upper(noisy, linalg.solve_lower(noisy, features - mean))
        self.variational_mean.copy_(lower.mT @ fitted)
        return features

    def sample_inducing(self, inducing: object, noise: Noise) -> tuple[GaussianState, Tensor]:
        r"""The ratio is :math:`-\sum_d \mathrm{KL}(q(e_d) \| \mathcal N(0, I))`, none sampled."""
        root = self.variational_root
        divergence = 0.5 * (
            root.square().sum()
            + self.variational_mean.square().sum()
            - self.variational_mean.numel()
        )
        divergence = divergence - self.log_root_diagonal.sum()
        return self._state(self.variational_mean, root), -divergence

    def draw_inducing(self, inducing: object, noise: Noise) -> tuple[GaussianState, Tensor]:
        r"""Sample :math:`e_d = m_d + R_d \epsilon_d`, with its log density ratio."""
        root = self.variational_root
        standard = noise.normal(self.width, root.shape[-1])
        drawn = self.variational_mean + (root @ standard.unsqueeze(-1)).squeeze(-1).mT
        squares = standard.square().sum((-2, -1)) - drawn.square().sum((-2, -1))
        return self._state(drawn, None), 0.5 * squares + self.log_root_diagonal.sum()

    def _state(self, whitened: Tensor, root: Tensor | None) -> GaussianState:
        factor = linalg.factor(
            self.kernel.square(self.inducing_inputs),
            jitter=self.jitter,
            what=f"the kernel matrix of {self.name}",
        )
        weights = whitened * self.scale**0.5
        return GaussianState(self.inducing_inputs, factor.inverse, weights, root)

    def moments(self, state: GaussianState, rows: Rows) -> tuple[Tensor, Tensor]:
        """Mean and variance of each row, ``(..., N, D)`` both."""
        cross, diagonal = kernel_rows(self.kernel, state.inputs, rows)
        projected = state.projection @ cross
        prior = diagonal - projected.square().sum(-2)
        floor = torch.finfo(prior.dtype).eps * diagonal.detach()
        variance = torch.maximum(prior, floor).unsqueeze(-1)
        if state.outputs is not None:
            # R_d^T a_t for all columns d in one product: (..., N, P) @ (P, D P).
            roots = state.outputs.movedim(0, 1).flatten(1)
            spread = (projected.mT @ roots).unflatten(-1, (self.width, -1))
            variance = variance + spread.square().sum(-1)
        return self._mean(projected, state, rows), self.scale * variance

    def joint_moments(self, state: GaussianState, rows: Rows) -> tuple[Tensor, Tensor]:
        """Mean ``(..., N, D)`` and covariance over rows for each column, ``(..., D, N, N)``."""
        cross, square = kernel_rows(self.kernel, state.inputs, rows, joint=True)
        projected = state.projection @ cross
        covariance = (square - projected.mT @ projected).unsqueeze(-3)
        if state.outputs is not None:
            spread = projected.mT.unsqueeze(-3) @ state.outputs
            covariance = covariance + spread @ spread.mT
        return self._mean(projected, state, rows), self.scale * covariance

    def _mean(self, projected: Tensor, state: GaussianState, rows: Rows) -> Tensor:
        mean = projected.mT @ state.weights
        assert isinstance(rows, Tensor)
        return mean if self.mean_weights is None else mean + rows @ self.mean_weights

    def prior(self, kernel_matrix: Tensor) -> MatrixNormal:
        """Prior without the mean function."""
        covariance = linalg.add_jitter(kernel_matrix, self.jitter) * self.scale
        lower = linalg.cholesky(covariance, what=f"the prior of {self.name}")
        return MatrixNormal(lower.new_zeros(*lower.shape[:-1], self.width), lower)
