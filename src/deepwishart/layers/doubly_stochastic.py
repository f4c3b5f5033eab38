r"""The doubly stochastic deep GP layer (Salimbeni & Deisenroth, 2017), a baseline.

Whitened inducing outputs of its own, one full covariance per column: with
:math:`\Sigma_{ZZ} = L L^\top`,

.. math:: u_d = L e_d, \qquad q(e_d) = \mathcal N(m_d, R_d R_d^\top), \qquad
          f_{td} \sim \mathcal N\big(a_t^\top m_d,\;
          \Sigma_{tt} - |a_t|^2 + |R_d^\top a_t|^2\big), \qquad a_t = L^{-1} \Sigma_{Zt}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from deepwishart._support.parameters import Declaration, Declarations
from deepwishart.kernels import Kernel
from deepwishart.layers.base import (
    Inducing,
    JointMoments,
    KernelOutputLayer,
    KernelPart,
    Layer,
    Rows,
)
from deepwishart.layers.gaussian import InducingOutputSample, KernelSample
from deepwishart.numerics import linalg
from deepwishart.numerics.gaussian import formed
from deepwishart.random import Randomness

_LEAST_NOISE = _LEAST_ROOT = 1e-2  # of a start: relative to the prior's variance, and R_d
_OUTPUT_ROOT = 0.1


@dataclass(eq=False)
class DoublyStochasticSample(KernelSample):
    r"""Rows given :math:`L^{-1}`, the mean :math:`m` or a draw of :math:`e`, and :math:`R` where
    :math:`e` was integrated out."""

    inverse: Tensor
    whitened: Tensor
    root: Tensor | None

    @property
    def inducing(self) -> Inducing:
        """Nothing: every layer has inducing points of its own."""
        return self.whitened.new_empty(0, self.layer.width)

    def moments(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Mean and variance of each row, ``(..., N, D)`` both."""
        cross, own = self.layer.row_covariance(self.inputs, rows)
        projected = self.inverse @ formed(cross)
        floor = torch.finfo(own.dtype).eps * own.detach()
        variance = torch.maximum(own - projected.square().sum(-2), floor).unsqueeze(-1)
        if self.root is not None:
            # R_d^T a_t for all columns d in one product: (..., N, P) @ (P, D P).
            roots = self.root.movedim(0, 1).flatten(1)
            spread = (projected.mT @ roots).unflatten(-1, (self.layer.width, -1))
            variance = variance + spread.square().sum(-1)
        return projected.mT @ self.whitened, variance

    def joint_moments(self, rows: Rows) -> JointMoments:
        cross, square = self.layer.joint_covariance(self.inputs, rows)
        projected = self.inverse @ cross
        covariance = (square - projected.mT @ projected).unsqueeze(-3)
        if self.root is not None:
            spread = projected.mT.unsqueeze(-3) @ self.root
            covariance = covariance + spread @ spread.mT
        return JointMoments(projected.mT @ self.whitened, covariance, square)


class WhitenedInducing(nn.Module):
    r"""Inducing inputs :math:`Z`, ``(P, D_in)``, and :math:`q(e_d)` of each column, with
    :math:`R_d` at first a multiple of the identity."""

    declares: ClassVar[Declarations] = {"inputs": Declaration("inducing")}

    def __init__(self, inputs: Tensor, width: int) -> None:
        super().__init__()
        size, dtype = inputs.shape[0], inputs.dtype
        self.inputs = nn.Parameter(inputs.clone())
        self.mean = nn.Parameter(torch.zeros(size, width, dtype=dtype))
        self.root_lower = nn.Parameter(torch.zeros(width, size, size, dtype=dtype))
        self.log_root_diagonal = nn.Parameter(torch.zeros(width, size, dtype=dtype))

    @property
    def root(self) -> Tensor:
        """:math:`R_d`, ``(width, P, P)``, lower triangular with positive diagonal."""
        return self.root_lower.tril(-1) + torch.diag_embed(self.log_root_diagonal.exp())

    @torch.no_grad()
    def start_from(
        self, layer: KernelPart, inputs: Tensor, features: Tensor, ridge: float, root: float
    ) -> None:
        r"""Start at the GP regression on ``features`` at the inducing inputs, which become
        ``inputs``: :math:`m = L^\top (\Sigma + \lambda \bar k I)^{-1} F`, with ``ridge``
        :math:`\lambda` relative to the prior variance; :math:`R_d` becomes ``root`` times the
        identity."""
        self.log_root_diagonal.fill_(math.log(root))
        self.inputs.copy_(inputs)
        covariance = layer.covariance(inputs)
        lower = linalg.cholesky(covariance)
        noisy = linalg.cholesky(linalg.add_jitter(covariance, ridge))
        self.mean.copy_(lower.mT @ torch.cholesky_solve(features, noisy))

    def sample(
        self, layer: KernelPart, random: Randomness, integrate: bool
    ) -> DoublyStochasticSample:
        r"""With :math:`e` integrated out, when the ratio is
        :math:`-\sum_d \mathrm{KL}(q(e_d) \| \mathcal N(0, I))`, or drawn as
        :math:`e_d = m_d + R_d \epsilon_d`."""
        covariance = layer.covariance(self.inputs)
        inverse = linalg.factor(covariance, what=f"the kernel matrix of {layer.name}").inverse
        root, whitened = self.root, self.mean
        given: tuple[Tensor, Tensor | None] = (whitened, root)
        if integrate:
            squares = root.square().sum() + whitened.square().sum() - whitened.numel()
            ratio = self.log_root_diagonal.sum() - 0.5 * squares
        else:
            standard = random.normal(layer.width, root.shape[-1])
            drawn = whitened + (root @ standard.unsqueeze(-1)).squeeze(-1).mT
            squares = standard.square().sum((-2, -1)) - drawn.square().sum((-2, -1))
            ratio, given = 0.5 * squares + self.log_root_diagonal.sum(), (drawn, None)
        return DoublyStochasticSample(layer, self.inputs, ratio, inverse, *given)


class DoublyStochasticLayer(Layer):
    r"""Hidden layer. It ignores what the previous layer says about inducing points: its inducing
    inputs are parameters. Without the linear mean function of Salimbeni & Deisenroth the prior is
    the deep Wishart process's.

    Args:
        kernel: kernel applied to the previous layer's features.
        inducing_inputs: initial :math:`Z`, ``(P, D_in)``.
        width: number of columns.
        **options: ``name`` and ``jitter`` of :class:`~deepwishart.layers.Layer`.

    >>> from deepwishart.kernels import SquaredExponential
    >>> inputs = torch.linspace(-1, 1, 5)[:, None]
    >>> layer = DoublyStochasticLayer(SquaredExponential(), inputs, width=2)
    >>> sample = layer.sample(inputs, Randomness(10, dtype=torch.float32))
    >>> bool(sample.log_ratio.abs() < 1e-6)  # it starts at the prior
    True
    >>> sample.moments(torch.zeros(7, 1))[0].shape
    torch.Size([7, 2])
    """

    def __init__(self, kernel: Kernel, inducing_inputs: Tensor, width: int, **options: Any) -> None:
        super().__init__(kernel, width, **options)
        self.whitened = WhitenedInducing(inducing_inputs, width)

    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> DoublyStochasticSample:
        return self.whitened.sample(self, random, integrate)

    @torch.no_grad()
    def start_from(self, inducing: Inducing, features: Tensor, noise: float = 0.01) -> Tensor:
        assert isinstance(inducing, Tensor)
        root = max(_LEAST_ROOT, (noise / (1.0 + noise)) ** 0.5)
        self.whitened.start_from(self, inducing, features, max(_LEAST_NOISE, noise), root)
        return features


class DoublyStochasticOutputLayer(KernelOutputLayer):
    r"""Output layer, with inducing points of its own.

    Args:
        kernel: kernel applied to the previous layer's features.
        inducing_inputs: initial :math:`Z`, ``(P, D_in)``.
        width: number of columns.
        **options: ``bound``, ``name`` and ``jitter`` of
            :class:`~deepwishart.layers.base.KernelOutputLayer`.

    >>> from deepwishart.kernels import SquaredExponential
    >>> x = torch.linspace(-1, 1, 5)[:, None]
    >>> layer = DoublyStochasticOutputLayer(SquaredExponential(), x, width=1)
    >>> layer.sample(x, Randomness(10, dtype=torch.float32)).function.moments(x)[1].shape
    torch.Size([5, 1])
    """

    def __init__(self, kernel: Kernel, inducing_inputs: Tensor, width: int, **options: Any) -> None:
        super().__init__(kernel, width, **options)
        self.whitened = WhitenedInducing(inducing_inputs, width)

    def start_from(self, inducing: Inducing, latents: Tensor, precision: float) -> None:
        assert isinstance(inducing, Tensor)
        self.whitened.start_from(self, inducing, latents, 1.0 / precision, _OUTPUT_ROOT)

    def sample(
        self, inducing: Inducing, random: Randomness, *, integrate: bool = True
    ) -> InducingOutputSample:
        function = self.whitened.sample(self, random, integrate)
        return InducingOutputSample(function, self.tight)
