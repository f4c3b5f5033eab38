r"""Bartlett factors whose rows and columns are mixed, :math:`A = R T C` with :math:`T` the factor
and lower-triangular :math:`R` and :math:`C` of positive diagonal (Ober et al. 2023).

``rows`` is :math:`R`, ``(..., P, P)``, and ``columns`` :math:`C`, ``(..., m, m)``, everywhere;
``None`` is the identity.
"""

from __future__ import annotations

import torch
from torch import Tensor

from deepwishart.numerics import linalg

__all__ = ["log_mixing_volume", "log_scale_volume", "mix", "unmix"]


def mix(factor: Tensor, rows: Tensor | None, columns: Tensor | None) -> Tensor:
    r""":math:`A = R T C`, again lower trapezoidal with positive diagonal."""
    if columns is not None:
        factor = factor @ columns
    return factor if rows is None else rows @ factor


def unmix(mixed: Tensor, rows: Tensor | None, columns: Tensor | None) -> Tensor:
    r""":math:`T = R^{-1} A C^{-1}`, the inverse of :func:`mix`; two triangular solves."""
    if rows is not None:
        mixed = linalg.solve_lower(rows, mixed)
    return mixed if columns is None else linalg.solve_upper(columns, mixed.mT).mT


def log_scale_volume(lower: Tensor, rank: int) -> Tensor:
    r"""Log Jacobian of :math:`Z \mapsto L Z L^\top` on the free elements.

    .. math:: \sum_{j \le m} (P - j + 1) \log L_{jj} + \sum_{i \le P} \min(i, m) \log L_{ii}
              = (P + 1) \sum_{i \le m} \log L_{ii} + m \sum_{i > m} \log L_{ii}

    Appendices B and C of the paper; in full rank the familiar :math:`(P + 1) \log|L|`.

    >>> log_scale_volume(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), rank=1)  # three times log 2
    tensor(2.0794)
    """
    log_diagonal = lower.diagonal(dim1=-2, dim2=-1).log()
    num_rows = log_diagonal.shape[-1]
    first, rest = log_diagonal[..., :rank].sum(-1), log_diagonal[..., rank:].sum(-1)
    return (num_rows + 1) * first + rank * rest


def log_mixing_volume(
    rows: Tensor | None, columns: Tensor | None, num_rows: int, rank: int
) -> float | Tensor:
    r"""Log Jacobian of :math:`T T^\top \mapsto (R T C)(R T C)^\top` on the free elements.

    .. math:: (P + 1) \sum_{i \le m} \log R_{ii} + m \sum_{i > m} \log R_{ii}
              + 2 \sum_{k \le m} (P - k + 1) \log C_{kk}

    Zero for unit diagonals, which lose no generality; :doc:`/theory` derives both.
    """
    volume: float | Tensor = 0.0
    if rows is not None:
        volume = volume + log_scale_volume(rows, rank)
    if columns is not None:
        diagonal = columns.diagonal(dim1=-2, dim2=-1)
        counts = torch.arange(num_rows, num_rows - rank, -1, device=diagonal.device)
        volume = volume + 2.0 * (counts * diagonal.log()).sum(-1)
    return volume
