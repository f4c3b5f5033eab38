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
from typing import NamedTuple

import torch
from torch import Tensor

from deepwishart.numerics import linalg

__all__ = ["Anchor", "anchor", "log_gamma_ratio"]


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
    >>> anchor(2.0 * one, one, 0.5 * one).upper.item() ** 2  # R = 1
    2.0...
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
