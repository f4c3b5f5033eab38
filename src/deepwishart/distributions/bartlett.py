r"""The (generalised, possibly singular) Bartlett factor: how it is drawn and how dense it is.

.. math:: A \in \mathbb{R}^{P \times m}, \quad A_{jj}^2 \sim \text{Gamma}(\alpha_j, \beta_j), \quad
          A_{i>j} \sim \mathcal{N}(\mu_{ij}, \sigma_{ij}^2), \quad A_{i<j} = 0

with :math:`m = \min(P, \nu)` (Ober & Aitchison 2021, Sec. 3.1). The Wishart is the special case
:math:`\alpha_j = (\nu - j + 1)/2, \beta_j = 1/2, \mu = 0, \sigma = 1`. Every distribution
over Gram matrices draws from :func:`sample_factor`.

Its rows and columns may be mixed, :math:`A = R T C` with :math:`T` the factor above and
lower-triangular :math:`R` and :math:`C` of positive diagonal (Ober et al. 2023): :func:`mix`,
:func:`unmix` and :func:`log_mixing_volume`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from deepwishart._support.arguments import check_generator
from deepwishart.numerics import linalg


def rank_of(df: float | Tensor, dimension: int) -> int:
    r""":math:`m = P` if :math:`\nu > P - 1`, otherwise :math:`m = \nu`, an integer; one for all
    entries of a tensor."""
    if isinstance(df, Tensor):
        entries = set(df.flatten().tolist())
        df = min(entries, default=math.inf)
        if df <= dimension - 1 and len(entries) > 1:
            raise ValueError(
                f"df has entries at or below P - 1 = {dimension - 1} that are not all equal, so "
                "the samples of this batch would not have one common rank. Give one integer df, "
                f"or values that are all above {dimension - 1}."
            )
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


def standard_normal(
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device | str,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Standard normal noise, drawn on the generator's device, so that a CPU generator serves any
    model."""
    check_generator(generator)
    source = device if generator is None else generator.device
    return torch.randn(shape, generator=generator, dtype=dtype, device=source).to(device)


def standard_gamma(concentration: Tensor, generator: torch.Generator | None) -> Tensor:
    r"""Draws of :math:`\text{Gamma}(\alpha, 1)`, away from zero, with their implicit gradient in
    :math:`\alpha` (Figurnov et al. 2018), which PyTorch's private operation carries."""
    check_generator(generator)
    source = concentration.device if generator is None else generator.device
    gamma = torch._standard_gamma(concentration.to(source), generator=generator)
    return gamma.clamp_min(torch.finfo(gamma.dtype).tiny).to(concentration.device)


def factor_noise(
    batch_shape: torch.Size, num_rows: int, concentration: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    r"""The randomness of a Bartlett factor: :math:`\gamma_j \sim \text{Gamma}(\alpha_j, 1)`,
    ``(*batch_shape, m)``, with its implicit gradient, and standard normal :math:`\epsilon`,
    ``(*batch_shape, P, m)``, in single precision, which is several times faster and plenty for
    Monte Carlo noise."""
    rank = concentration.shape[-1]
    gamma = standard_gamma(concentration.expand(*batch_shape, rank), generator)
    shape = torch.Size([*batch_shape, num_rows, rank])
    normal = standard_normal(shape, torch.float32, concentration.device, generator)
    return gamma, normal.to(concentration.dtype)


def sample_factor(
    batch_shape: torch.Size,
    num_rows: int,
    concentration: Tensor,
    rate: float | Tensor = 0.5,
    loc: Tensor | None = None,
    scale: Tensor | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Draw :math:`A` with :math:`A_{jj} = \sqrt{\gamma_j/\beta_j}`,
    :math:`A_{i>j} = \mu_{ij} + \sigma_{ij} \epsilon_{ij}`.

    Differentiable in all parameters: the gamma variables :math:`\gamma_j` carry PyTorch's
    implicit reparameterisation gradient in :math:`\alpha_j`. Draws of :math:`A_{jj}^2` that
    underflow are raised to the smallest normal number of the dtype, so :math:`\log A_{jj}` is
    finite.

    Of ``concentration`` :math:`\alpha` and ``rate`` :math:`\beta`, ``(..., m)``, and ``loc``
    :math:`\mu` and ``scale`` :math:`\sigma`, ``(..., P, m)``; without the latter, 0 and 1.
    """
    gamma, lower = factor_noise(batch_shape, num_rows, concentration, generator)
    squares = gamma / rate
    # On the detached tensor: the clamp changes the value and leaves the gradient alone.
    squares.detach().clamp_(min=torch.finfo(squares.dtype).tiny)
    if loc is not None and scale is not None:
        lower = torch.addcmul(loc, scale, lower)
    return torch.diagonal_scatter(lower.tril(-1), squares.sqrt(), dim1=-2, dim2=-1)


def log_prob_factor(
    factor: Tensor, concentration: Tensor, rate: Tensor, loc: Tensor, scale: Tensor
) -> Tensor:
    r"""Log density of :math:`Z = A A^\top` on its free elements (Definition 1 with :math:`L = I`).

    .. math:: \sum_{j \le m} \Big[\log \text{Gamma}(A_{jj}^2; \alpha_j, \beta_j)
              - (P - j) \log A_{jj}\Big]
              + \sum_{j \le m,\, i > j} \log \mathcal{N}(A_{ij}; \mu_{ij}, \sigma_{ij}^2)

    for ``factor`` :math:`A`, ``(..., P, m)``, and parameters as in :func:`sample_factor`; of
    ``scale``, what is not below the diagonal has to be 1.
    """
    num_rows, rank = factor.shape[-2:]
    diagonal = factor.diagonal(dim1=-2, dim2=-1)
    # (A_jj^2)^(alpha_j - 1) / A_jj^(P - j) is one power of A_jj.
    beyond = torch.arange(num_rows - 1, num_rows - 1 - rank, -1, device=factor.device)
    power = 2.0 * (concentration - 1.0) - beyond
    gamma = torch.addcmul(power * diagonal.log(), rate, diagonal.square(), value=-1)
    gamma = gamma + (concentration * rate.log() - concentration.lgamma())
    whitened = ((factor - loc) / scale).tril(-1)
    normal = -0.5 * whitened.square().sum((-2, -1)) - scale.log().sum((-2, -1))
    num_normal = num_rows * rank - rank * (rank + 1) // 2
    return gamma.sum(-1) + normal - 0.5 * num_normal * math.log(2.0 * math.pi)


def log_scale_volume(scale_tril: Tensor, rank: int) -> Tensor:
    r"""Log Jacobian of :math:`Z \mapsto L Z L^\top` on the free elements.

    .. math:: \sum_{j \le m} (P - j + 1) \log L_{jj} + \sum_{i \le P} \min(i, m) \log L_{ii}
              = (P + 1) \sum_{i \le m} \log L_{ii} + m \sum_{i > m} \log L_{ii}

    Appendices B and C of the paper; in full rank the familiar :math:`(P + 1) \log|L|`.
    """
    log_diagonal = scale_tril.diagonal(dim1=-2, dim2=-1).log()
    num_rows = log_diagonal.shape[-1]
    first, rest = log_diagonal[..., :rank].sum(-1), log_diagonal[..., rank:].sum(-1)
    return (num_rows + 1) * first + rank * rest


def mix(factor: Tensor, row_mixing: Tensor | None, column_mixing: Tensor | None) -> Tensor:
    r""":math:`A = R T C`, again lower trapezoidal with positive diagonal.

    ``row_mixing`` is :math:`R`, ``(..., P, P)``, and ``column_mixing`` :math:`C`, ``(..., m, m)``,
    here and below; ``None`` is the identity.
    """
    if column_mixing is not None:
        factor = factor @ column_mixing
    return factor if row_mixing is None else row_mixing @ factor


def unmix(mixed: Tensor, row_mixing: Tensor | None, column_mixing: Tensor | None) -> Tensor:
    r""":math:`T = R^{-1} A C^{-1}`, the inverse of :func:`mix`; two triangular solves."""
    if row_mixing is not None:
        mixed = linalg.solve_lower(row_mixing, mixed)
    return mixed if column_mixing is None else linalg.solve_upper(column_mixing, mixed.mT).mT


def log_mixing_volume(
    row_mixing: Tensor | None, column_mixing: Tensor | None, num_rows: int, rank: int
) -> float | Tensor:
    r"""Log Jacobian of :math:`T T^\top \mapsto (R T C)(R T C)^\top` on the free elements.

    .. math:: (P + 1) \sum_{i \le m} \log R_{ii} + m \sum_{i > m} \log R_{ii}
              + 2 \sum_{k \le m} (P - k + 1) \log C_{kk}

    Zero for unit diagonals, which lose no generality; :doc:`/theory` derives both.
    """
    volume: float | Tensor = 0.0
    if row_mixing is not None:
        volume = volume + log_scale_volume(row_mixing, rank)
    if column_mixing is not None:
        diagonal = column_mixing.diagonal(dim1=-2, dim2=-1)
        counts = torch.arange(num_rows, num_rows - rank, -1, device=diagonal.device)
        volume = volume + 2.0 * (counts * diagonal.log()).sum(-1)
    return volume


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
