r"""Mean and variance of :math:`G = B C C^\top B^\top` with :math:`B = S T` and independent
:math:`T_{ij}`.

:math:`S` is the scale's factor (times the row mixing), :math:`C` the column mixing. With
:math:`W = C C^\top`, :math:`G = \sum_{jk} W_{jk}\, b_j b_k^\top` is a quadratic form in the
independent columns :math:`b_j = S t_j` of :math:`B`, and needs only the first four cumulants of the
entries of :math:`T`. Normal entries have no cumulants beyond the second; :math:`T_{jj}`, the root
of a gamma variable, has.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class FactorMoments(NamedTuple):
    r"""Cumulants of the entries of :math:`T`.

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
    r"""Cumulants of the Bartlett factor, from the raw moments of :math:`x = T_{jj}`:
    :math:`\mathrm{E}[x^k] = \beta^{-k/2}\, \Gamma(\alpha + k/2) / \Gamma(\alpha)`, which cancel,
    hence double precision.

    Parameters are as in :func:`~deepwishart.numerics.wishart.log_density_of_factor`, with ``loc``
    zero on and above the diagonal.
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
    diagonal = torch.eye(*loc.shape[-2:], dtype=torch.bool, device=loc.device)
    mean = torch.where(diagonal, m1.to(dtype).unsqueeze(-2), loc)
    variance = torch.where(diagonal, second.to(dtype).unsqueeze(-2), scale.square().tril(-1))
    return FactorMoments(mean, variance, third.to(dtype), fourth.to(dtype))


def gram_mean(scale_tril: Tensor, moments: FactorMoments, column_mixing: Tensor) -> Tensor:
    r""":math:`\mathrm{E}[G] = S \left(M W M^\top + \operatorname{diag}(V w)\right) S^\top`,
    :math:`w_j = W_{jj}`.

    ``scale_tril`` is :math:`S`, ``(..., P, P)``, and ``column_mixing`` :math:`C`, ``(..., m, m)``;
    :math:`M` and :math:`V` are the means and variances in ``moments``.
    """
    centre = scale_tril @ moments.mean @ column_mixing
    variance = moments.variance * column_mixing.square().sum(-1).unsqueeze(-2)
    noise = scale_tril * variance.sum(-1).unsqueeze(-2)
    return centre @ centre.mT + noise @ scale_tril.mT


def gram_variance(scale_tril: Tensor, moments: FactorMoments, column_mixing: Tensor) -> Tensor:
    r"""Elementwise variance of :math:`G`.

    Write a column as :math:`b_j = c_j + e_j` with :math:`c_j = \mathrm{E}[b_j]`, and
    :math:`D_j = S \operatorname{diag}(v_j)\, S^\top` for the covariance of :math:`e_j`. Only entry
    :math:`j` of :math:`t_j` has a third and fourth cumulant, :math:`\kappa_3` and
    :math:`\kappa_4`; let :math:`\ell` be column :math:`j` of :math:`S` and
    :math:`u_j = \sum_k W_{jk} c_k`. Then

    .. math::
        G_{pq} = \text{const} + \sum_j (u_{jp} e_{jq} + e_{jp} u_{jq})
        + \sum_{jk} W_{jk}\, e_{jp} e_{kq} ,

    .. math::
        \operatorname{Var}[G_{pq}] ={}& \sum_j \Big[ u_p^2 D_{qq} + u_q^2 D_{pp}
        + 2 u_p u_q D_{pq} + 2 W_{jj} \kappa_3 (u_p \ell_p \ell_q^2 + u_q \ell_q \ell_p^2)
        + W_{jj}^2 \kappa_4 \ell_p^2 \ell_q^2 \Big]_j \\
        & + \sum_{jk} W_{jk}^2 \big( D_{j,pp} D_{k,qq} + D_{j,pq} D_{k,pq} \big)

    because the noise of two columns is independent: a product of four :math:`e` has a mean only
    if it pairs them (Isserlis' sum) or is the fourth cumulant of a single column.
    """
    rank = moments.mean.shape[-1]
    W = column_mixing @ column_mixing.mT
    weight = W.diagonal(dim1=-2, dim2=-1)[..., None, None]
    # Columns j come first, then the pair (p, q).
    u = (scale_tril @ moments.mean @ W).mT.unsqueeze(-1)
    column = scale_tril[..., :rank].mT.unsqueeze(-1)
    scaled = scale_tril.unsqueeze(-3) * moments.variance.mT.unsqueeze(-2)
    D = scaled @ scale_tril.mT.unsqueeze(-3)
    D_diag = D.diagonal(dim1=-2, dim2=-1)
    kappa3 = weight * moments.third[..., None, None]
    kappa4 = weight.square() * moments.fourth[..., None, None]

    one_sided = u.square() * D_diag.unsqueeze(-2) + 2.0 * kappa3 * (u * column) * column.square().mT
    of_columns = 2.0 * (u * u.mT) * D + kappa4 * column.square() * column.square().mT
    paired = torch.einsum("...jk,...jpq,...kpq->...pq", W.square(), D, D)
    return (
        (one_sided + one_sided.mT + of_columns).sum(-3) + paired + (D_diag.mT @ W.square() @ D_diag)
    )
