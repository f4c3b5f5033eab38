r"""Mean and variance of :math:`G = B B^\top` with :math:`B = L A` and independent :math:`A_{ij}`.

The columns :math:`b_r = L a_r` of :math:`B` are independent, so :math:`G = \sum_r b_r b_r^\top` is
a sum of independent terms, and each needs only the first four cumulants of the entries of
:math:`a_r`. Normal entries have no cumulants beyond the second; :math:`A_{rr}`, the root of a gamma
variable, has.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["FactorMoments", "factor_moments", "gram_mean", "gram_variance"]


class FactorMoments(NamedTuple):
    r"""Cumulants of the entries of :math:`A`.

    ``mean`` and ``variance`` are those of all entries, ``(..., P, m)``; ``third`` and ``fourth``
    those of the diagonal entries, ``(..., m)`` (they are zero for the others).
    """

    mean: Tensor
    variance: Tensor
    third: Tensor
    fourth: Tensor


def factor_moments(
    concentration: Tensor, rate: Tensor, loc: Tensor, scale: Tensor
) -> FactorMoments:
    r"""Cumulants of the Bartlett factor.

    The raw moments of :math:`x = A_{jj}` are :math:`\mathrm{E}[x^k] = \beta^{-k/2}\,
    \Gamma(\alpha + k/2) / \Gamma(\alpha)`. They cancel in the cumulants, hence double precision.

    Args:
        concentration: :math:`\alpha`, ``(..., m)``.
        rate: :math:`\beta`, ``(..., m)``.
        loc: :math:`\mu`, ``(..., P, m)``, zero on and above the diagonal.
        scale: :math:`\sigma`, ``(..., P, m)``.

    >>> one = torch.ones(1)
    >>> moments = factor_moments(one, one, torch.zeros(1, 1), torch.ones(1, 1))
    >>> round(moments.mean.item(), 4), round(moments.variance.item(), 4)
    (0.8862, 0.2146)
    """
    dtype = concentration.dtype
    alpha, beta = concentration.double(), rate.double()
    m1 = (torch.lgamma(alpha + 0.5) - torch.lgamma(alpha)).exp() / beta.sqrt()
    m2 = alpha / beta
    m3 = m1 * (alpha + 0.5) / beta
    m4 = m2 * (alpha + 1.0) / beta
    second = m2 - m1.square()
    third = m3 - 3.0 * m1 * m2 + 2.0 * m1**3
    fourth = m4 - 4.0 * m1 * m3 - 3.0 * m2.square() + 12.0 * m1.square() * m2 - 6.0 * m1**4
    mean = _with_diagonal(loc, m1.to(dtype))
    variance = _with_diagonal(scale.square().tril(-1), second.to(dtype))
    return FactorMoments(mean, variance, third.to(dtype), fourth.to(dtype))


def gram_mean(scale_tril: Tensor, moments: FactorMoments) -> Tensor:
    r""":math:`\mathrm{E}[G] = L \left(M M^\top + \operatorname{diag}(V 1)\right) L^\top`.

    Args:
        scale_tril: :math:`L`, ``(..., P, P)``.
        moments: of :math:`A`; :math:`M` and :math:`V` are the entries' means and variances.

    >>> moments = FactorMoments(torch.ones(2, 1), torch.ones(2, 1), torch.zeros(1), torch.zeros(1))
    >>> gram_mean(torch.eye(2), moments)
    tensor([[2., 1.],
            [1., 2.]])
    """
    centre = scale_tril @ moments.mean
    noise = scale_tril * moments.variance.sum(-1).unsqueeze(-2)
    return centre @ centre.mT + noise @ scale_tril.mT


def gram_variance(scale_tril: Tensor, moments: FactorMoments) -> Tensor:
    r"""Elementwise variance of :math:`G`.

    Write a column as :math:`b = c + w` with :math:`c = \mathrm{E}[b]`, :math:`w = L e` and
    :math:`C = L \operatorname{diag}(v)\, L^\top` the covariance of :math:`w`. If only entry
    :math:`r` of :math:`e` has a third and fourth cumulant :math:`\kappa_3, \kappa_4`, and
    :math:`\ell` is column :math:`r` of :math:`L`, then

    .. math::
        \operatorname{Var}[b_p b_q] ={}& c_p^2 C_{qq} + c_q^2 C_{pp} + 2 c_p c_q C_{pq}
        + 2 \kappa_3 (c_p \ell_p \ell_q^2 + c_q \ell_q \ell_p^2) \\
        & + C_{pp} C_{qq} + C_{pq}^2 + \kappa_4 \ell_p^2 \ell_q^2

    (the fourth moment of :math:`w` is Isserlis' sum plus its fourth cumulant), and
    :math:`\operatorname{Var}[G_{pq}]` is the sum of this over the :math:`m` columns.

    Args:
        scale_tril: :math:`L`, ``(..., P, P)``.
        moments: of :math:`A`.

    Returns:
        ``(..., P, P)``.

    >>> moments = FactorMoments(torch.zeros(1, 1), torch.ones(1, 1), torch.zeros(1), torch.zeros(1))
    >>> gram_variance(torch.eye(1), moments)
    tensor([[2.]])
    """
    rank = moments.mean.shape[-1]
    # Columns r come first, then the pair (p, q).
    c = (scale_tril @ moments.mean).mT.unsqueeze(-1)
    column = scale_tril[..., :rank].mT.unsqueeze(-1)
    scaled = scale_tril.unsqueeze(-3) * moments.variance.mT.unsqueeze(-2)
    C = scaled @ scale_tril.mT.unsqueeze(-3)
    C_diag = C.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    kappa3, kappa4 = moments.third[..., None, None], moments.fourth[..., None, None]

    one_sided = c.square() * C_diag.mT + 2.0 * kappa3 * (c * column) * column.square().mT
    mixed = 2.0 * (c * c.mT) * C
    noise = C_diag * C_diag.mT + C.square() + kappa4 * column.square() * column.square().mT
    return (one_sided + one_sided.mT + mixed + noise).sum(-3)


def _with_diagonal(matrix: Tensor, diagonal: Tensor) -> Tensor:
    batch = torch.broadcast_shapes(matrix.shape[:-2], diagonal.shape[:-1])
    matrix = matrix.expand(*batch, *matrix.shape[-2:])
    diagonal = diagonal.expand(*batch, diagonal.shape[-1])
    return torch.diagonal_scatter(matrix, diagonal, dim1=-2, dim2=-1)
