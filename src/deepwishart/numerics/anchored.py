r"""The Bartlett factor of features that were observed: the anchored posterior's draw and density.

Let :math:`\Sigma = L L^\top`, :math:`F = L A` with a lower-trapezoidal factor :math:`A`, and let
:math:`M^\top F_{:j}` have been observed, with unit noise, as :math:`M^\top v_j`. With
:math:`R = L^\top M` and :math:`N = I + R R^\top`, column :math:`j` of :math:`A` below the diagonal,
:math:`T = \{i > j\}`, then has the law

.. math:: A_{Tj} \mid A_{jj} \sim \mathcal N(N_{TT}^{-1} r_{Tj}, N_{TT}^{-1}), \qquad
          r_j = R M^\top (v_j - L_{:j} A_{jj}).

All columns share one factorisation, :math:`N = U U^\top` with *upper* triangular :math:`U`: every
trailing block of :math:`N` is the product of the trailing blocks of :math:`U`. With the mask
:math:`m_{ij} = [i > j]` and standard normal :math:`\epsilon`

.. math:: A = U^{-\top} \big(m \odot (U^{-1} r + \epsilon)\big) + \operatorname{diag}(A_{jj}),
          \qquad
          \log q(A_{Tj} \mid A_{jj}) = \sum_{i > j} \big(\log U_{ii} - \tfrac12 \epsilon_{ij}^2
          - \tfrac12 \log 2\pi\big).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart.numerics import linalg
from deepwishart.numerics.operation import compiled, operation
from deepwishart.numerics.rows import Conditional, known_form
from deepwishart.numerics.wishart import root_gradients

__all__ = ["Anchor", "anchor", "draw_anchored", "log_gamma_ratio"]


class Anchor(NamedTuple):
    r"""What the observations say of the factor, for scale matrices :math:`\Sigma = L L^\top`.

    Attributes:
        lower: :math:`L`, ``(..., P, P)``.
        upper: :math:`U`, ``(..., P, P)``.
        solved: :math:`U^{-1} R M^\top v`, ``(..., P, m)``.
        slope: :math:`U^{-1} R M^\top L_{:,:m}`, ``(..., P, m)``: what the diagonal takes away.
    """

    lower: Tensor
    upper: Tensor
    solved: Tensor
    slope: Tensor

    def draw(self, diagonal: Tensor, epsilon: Tensor) -> Tensor:
        r"""The factor :math:`A`, ``(..., P, m)``, of diagonals :math:`A_{jj}`, ``(..., m)``, and
        noise :math:`\epsilon`, ``(..., P, m)``."""
        centre = self.solved - self.slope * diagonal.unsqueeze(-2)
        below = linalg.solve_lower(self.upper.mT, (centre + epsilon).tril(-1))
        # Rows above the diagonal are zero of themselves, up to rounding.
        return torch.diagonal_scatter(below.tril(-1), diagonal, dim1=-2, dim2=-1)

    def whiten(self, factor: Tensor) -> Tensor:
        r"""The noise :math:`\epsilon` below the diagonal with which :meth:`draw` gives ``factor``;
        zero elsewhere."""
        diagonal = factor.diagonal(dim1=-2, dim2=-1)
        centre = self.solved - self.slope * diagonal.unsqueeze(-2)
        return (self.upper.mT @ factor.tril(-1) - centre).tril(-1)

    def log_volume(self) -> Tensor:
        r""":math:`\sum_{i > j} \log U_{ii}`, ``(...)``: each row counts as often as it is below the
        diagonal."""
        size, rank = self.solved.shape[-2:]
        times = torch.arange(size, device=self.upper.device).clamp_max(rank)
        return (times * self.upper.diagonal(dim1=-2, dim2=-1).log()).sum(-1)


def anchor(lower: Tensor, targets: Tensor, precision_root: Tensor) -> Anchor:
    r"""Condition on :math:`M^\top v` having been observed.

    Args:
        lower: :math:`L`, ``(..., P, P)``.
        targets: :math:`v`, ``(..., P, m)``.
        precision_root: :math:`M`, ``(..., P, P)``.

    >>> one = torch.ones(1, 1)
    >>> round(anchor(2.0 * one, one, 0.5 * one).upper.item() ** 2, 4)  # R = 1
    2.0
    """
    R = lower.mT @ precision_root
    eye = torch.eye(R.shape[-1], dtype=R.dtype, device=R.device)
    N = R @ R.mT + eye
    what = "the precision of an anchored posterior"
    upper = linalg.cholesky(N.flip(-2, -1), what=what).flip(-2, -1)
    rank = targets.shape[-1]
    # R M^T L = R R^T = N - I, and U^-1 N = U^T.
    solved = torch.linalg.solve_triangular(upper, R @ (precision_root.mT @ targets), upper=True)
    unit = eye[:, :rank].expand(*upper.shape[:-1], rank)
    slope = upper.mT[..., :rank] - torch.linalg.solve_triangular(upper, unit, upper=True)
    return Anchor(lower, upper, solved, slope)


def log_gamma_ratio(squares: Tensor, prior: Tensor, concentration: Tensor, rate: Tensor) -> Tensor:
    r""":math:`\sum_j \log \text{Gamma}(A_{jj}^2; \alpha^0_j, \tfrac12) - \log
    \text{Gamma}(A_{jj}^2; \alpha_j, \beta_j)`, ``(...)``.

    Args:
        squares: :math:`A_{jj}^2`, ``(..., m)``.
        prior: :math:`\alpha^0_j = \tfrac12(\nu - j + 1)`, ``(m,)``.
        concentration: :math:`\alpha_j`, ``(m,)``.
        rate: :math:`\beta_j`, ``(m,)``.

    >>> one = torch.ones(1)
    >>> log_gamma_ratio(one, one, one, 0.5 * one).item()
    0.0
    """
    at_prior = (prior - concentration) * squares.log() - (0.5 - rate) * squares
    constant = torch.lgamma(concentration) - torch.lgamma(prior) - prior * math.log(2.0)
    return (at_prior + constant - concentration * rate.log()).sum(-1)


def draw_anchored(
    scale: Tensor,
    gamma: Tensor,
    concentration: Tensor,
    rate: Tensor,
    targets: Tensor,
    precision_root: Tensor,
    epsilon: Tensor,
    degrees: float,
    *,
    sticking: bool = True,
    what: str = "matrix",
) -> tuple[Tensor, Conditional]:
    r"""The root :math:`F` of a draw :math:`G = F F^\top \sim q` from the anchored posterior and
    :math:`\log p(G) - \log q(G)` there, with :math:`p` the Wishart of the same scale, so that all
    Jacobians cancel:

    .. math:: \log\frac pq = \sum_j \log \frac{\text{Gamma}(A_{jj}^2; \frac{\nu-j+1}2, \frac12)}
              {\text{Gamma}(A_{jj}^2; \alpha_j, \beta_j)} + \sum_{i > j} \Big(
              \tfrac12 \big(\epsilon_{ij}^2 - A_{ij}^2\big) - \log U_{ii}\Big).

    A scale that does not factorise gets jitter, and the same noise.

    Args:
        scale: :math:`\Sigma`, ``(P, P)`` shared by all samples or ``(S, P, P)``.
        gamma: standard gamma draws, ``(S, m)``, with their gradient in :math:`\alpha`.
        concentration: :math:`\alpha`, ``(m,)``.
        rate: :math:`\beta`, ``(m,)``.
        targets: :math:`v`, ``(P, m)``.
        precision_root: :math:`M`, ``(P, P)``.
        epsilon: standard normal, ``(S, P, m)``.
        degrees: :math:`\nu`.
        sticking: score the gamma variables with :math:`\alpha, \beta` detached; the second sum has
            no score term.
        what: how error messages call the layer.

    Returns:
        The ratio ``(S,)``, and the root with the scale, for rows to be conditioned on.

    >>> one, eye = torch.ones(3, 2, 1), torch.eye(2)
    >>> parameters = one[:, 0], one[0, 0], one[0, 0], one[0], eye
    >>> log_ratio, given = draw_anchored(eye, *parameters, one, degrees=1)
    >>> log_ratio.shape, given.root.shape
    (torch.Size([3]), torch.Size([3, 2, 1]))
    """
    rest = (gamma, concentration, rate, targets, precision_root, epsilon, degrees, sticking)
    root, log_ratio, *found = linalg.with_jitter(
        lambda matrix: anchored_draw(matrix, *rest), scale, what=f"the kernel matrix of {what}"
    )
    inverse, weights, form, solved = found
    return log_ratio, Conditional(scale, inverse, root, weights, form, solved)


def plain_anchored_draw(
    scale: Tensor,
    gamma: Tensor,
    concentration: Tensor,
    rate: Tensor,
    targets: Tensor,
    precision_root: Tensor,
    epsilon: Tensor,
    degrees: float,
    sticking: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The root, the ratio, what else :class:`~deepwishart.numerics.rows.Conditional` holds, and 0
    or the pivot of the scale that failed."""
    lower, inverse, failed = linalg.cholesky_inverse(scale)
    identity = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    lower = torch.where((failed == 0)[..., None, None], lower, identity)
    squares = gamma / rate
    known = anchor(lower, targets, precision_root)
    factor = known.draw(squares.sqrt(), epsilon)
    if sticking:
        concentration, rate = concentration.detach(), rate.detach()
    steps = torch.arange(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    gammas = log_gamma_ratio(squares, 0.5 * (degrees - steps), concentration, rate)
    normals = 0.5 * (epsilon.tril(-1).square() - factor.tril(-1).square()).sum((-2, -1))
    log_ratio = normals - known.log_volume() + gammas
    return lower @ factor, log_ratio, inverse, factor, *known_form(inverse, factor), failed


anchored_draw = operation(plain_anchored_draw)


@compiled(plain_anchored_draw)
def _(
    scale: Tensor,
    gamma: Tensor,
    concentration: Tensor,
    rate: Tensor,
    targets: Tensor,
    precision_root: Tensor,
    epsilon: Tensor,
    degrees: float,
    sticking: bool,
) -> tuple[Tensor, ...]:
    # M M^T with one factor fixed: its gradient is symmetric, and one product sends it on.
    M = precision_root.detach()
    precision = M @ (2.0 * precision_root - M).mT
    tensors = (linalg.flatten(scale), gamma, concentration, rate, targets, precision, epsilon)
    exact = (t.double().contiguous() for t in tensors)
    *found, failed = AnchoredDraw.apply(*exact, degrees, sticking)
    root, log_ratio, inverse, factor, form, solved = (t.to(scale.dtype) for t in found)
    if scale.dtype != torch.float64:
        form = inverse.detach()
    inverse, form, failed = linalg.unflatten((inverse, form, failed), scale)
    return root, log_ratio, inverse, factor, form, solved, failed


class AnchoredDraw(torch.autograd.Function):
    r"""From :math:`\Sigma`, :math:`\Lambda = M M^\top` and :math:`v`. With :math:`C = \Sigma^{-1}`,
    :math:`(C + \Lambda)^{-1} = G G^\top` and lower-triangular :math:`G`,
    :math:`U = L^\top G^{-\top}` is the upper factor of :math:`N = I + L^\top \Lambda L`: no product
    of size :math:`P^3` with :math:`\Lambda` is needed. With
    :math:`D = \operatorname{diag}(A_{jj})`, ``(P, m)``, and the mask :math:`m`

    .. math:: q = v - L D, \quad W = U^{-1} r = G^\top \Lambda q, \quad Z = m \odot (W + \epsilon),
              \quad F = L D + G Z, \quad A = L^{-1} F, \quad U_{ii} = L_{ii} / G_{ii} .

    **Gradients** for :math:`\bar F`, :math:`\bar w` of the whitened root, and :math:`c` of the
    ratio, which :math:`A` receives as :math:`\bar A = \bar w - c A`. With
    :math:`\bar F' = \bar F + L^{-\top} \bar A`

    .. math:: \bar Z = G^\top \bar F', \quad \bar W = m \odot \bar Z, \quad
              \bar u = G \bar W, \quad \bar q = \Lambda \bar u, \quad
              Y = L^\top (\bar F' - \bar q), \quad \bar v = \sum_s \bar q, \quad
              \bar d_j = Y_{jj},

    both factors receive outer products,

    .. math:: G^\top \bar G &= \bar Z Z^\top + W \bar W^\top + c\, n, \\
              L^\top \bar L &= -\bar A A^\top + Y D^\top - c\, n, \qquad
              n = \operatorname{diag}(\min(i - 1, m)),

    and with :math:`S = \tfrac12 (\Phi(G^\top \bar G) + \Phi(G^\top \bar G)^\top)`, so that
    :math:`-G S G^\top` is the gradient of :math:`C + \Lambda`,

    .. math:: \bar\Lambda = \sum_s \Big(\tfrac12 (\bar u q^\top + q \bar u^\top)
              - G S G^\top\Big), \qquad
              \bar\Sigma = L^{-\top} \Big(\tfrac12 (\Phi(L^\top \bar L)
              + \Phi(L^\top \bar L)^\top) + L^{-1} G S G^\top L^{-\top}\Big) L^{-1} .

    The gamma variables receive :math:`\bar d` as in
    :class:`~deepwishart.numerics.wishart.WishartDraw`. All of it is in double precision.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        _, gamma, concentration, rate, _, precision, epsilon, *ctx.options = inputs
        found = torch.ops.deepwishart.anchored_draw_forward(*inputs[:-1])
        root, log_ratio, inverse, factor, form, solved, lower, failed, *rest = found
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(form, solved, failed)
        parameters = (gamma, concentration, rate, precision, epsilon)
        ctx.save_for_backward(*parameters, inverse, lower, factor, solved, *rest)
        return root, log_ratio, inverse, factor, form, solved, failed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        parameters, kept, factor = saved[:5], saved[5:], saved[7]
        found = torch.ops.deepwishart.anchored_draw_backward(
            *parameters, *ctx.options, *kept, *root_gradients(gradients, factor)
        )
        return *found, None, None, None
