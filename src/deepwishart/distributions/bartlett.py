r"""The rank of a Wishart matrix, its Bartlett factor drawn from a generator, and its root.

Every distribution over Gram matrices draws from :func:`sample_factor`; what a factor is, and how
dense, is in :mod:`deepwishart.numerics.wishart`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from deepwishart.numerics import linalg
from deepwishart.numerics.wishart import bartlett_factor
from deepwishart.random import factor_noise


def rank_of(df: float | Tensor, dimension: int) -> int:
    r""":math:`m = P` if :math:`\nu > P - 1`, otherwise :math:`m = \nu`, an integer; one for all
    entries of a tensor."""
    if isinstance(df, Tensor):
        ranks = {rank_of(each, dimension) for each in df.flatten().tolist()} or {dimension}
        if len(ranks) > 1:
            raise ValueError(
                "The samples of this batch would not have one common rank. Give one integer df, or "
                f"values that are all above P - 1 = {dimension - 1}."
            )
        return ranks.pop()
    if df > dimension - 1:
        return dimension
    if df >= 1 and df == int(df):
        return int(df)
    raise ValueError(
        f"df = {df:g} defines no Wishart distribution over {dimension} x {dimension} matrices: it "
        f"has to be a real number above P - 1 = {dimension - 1} (full rank) or a positive integer "
        "(singular)."
    )


def concentrations(df: float | Tensor, rank: int, like: Tensor) -> Tensor:
    r""":math:`\alpha_j = \tfrac12 (\nu - j + 1)` for :math:`j = 1, \dots, m` (Sec. 2.2),
    ``(..., m)``, with the dtype and device of ``like``."""
    steps = torch.arange(rank, dtype=like.dtype, device=like.device)
    if isinstance(df, Tensor):
        df = df.unsqueeze(-1)
    return 0.5 * (df - steps)


def sample_factor(
    batch_shape: torch.Size,
    num_rows: int,
    concentration: Tensor,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Draw a Wishart's :math:`A` with :math:`A_{jj}^2 \sim \text{Gamma}(\alpha_j, \tfrac12)` and
    standard normal :math:`A_{i>j}`, ``(*batch_shape, P, m)``, differentiable in :math:`\alpha`,
    ``(..., m)``."""
    gamma, noise = factor_noise(batch_shape, num_rows, concentration, generator)
    return bartlett_factor(gamma, 0.5, 0.0, 1.0, noise)


def root_of(matrix: Tensor, rank: int) -> Tensor:
    r"""The lower-trapezoidal :math:`\Lambda` with positive diagonal and
    :math:`G = \Lambda \Lambda^\top`.

    .. math:: \Lambda_{:m} = \text{chol}(G_{:m,:m}), \qquad
              \Lambda_{m:} = G_{m:,:m} \Lambda_{:m}^{-\top}

    The remaining block :math:`G_{m:,m:}` is determined by these and is not read.
    """
    what = f"the leading {rank} x {rank} block of a Gram matrix"
    top = linalg.cholesky(matrix[..., :rank, :rank], what=what, strict=True)
    if rank == matrix.shape[-1]:
        return top
    return torch.cat([top, linalg.solve_lower(top, matrix[..., rank:, :rank].mT).mT], dim=-2)
