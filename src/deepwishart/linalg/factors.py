r"""Cholesky factors with jitter, triangular solves, log-determinants."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from deepwishart import _fused

__all__ = [
    "LARGEST_JITTER",
    "CholeskyError",
    "Factor",
    "add_jitter",
    "cholesky",
    "default_jitter",
    "factor",
    "log_det",
    "solve_lower",
    "solve_upper",
]

LARGEST_JITTER = 1e-2
_GROWTH = 10.0


class CholeskyError(ArithmeticError):
    """A matrix that has to be positive definite is not, even after jitter."""


class Factor(NamedTuple):
    r""":math:`K = L L^\top` together with :math:`L^{-1}`, both lower triangular ``(..., P, P)``."""

    lower: Tensor
    inverse: Tensor


def default_jitter(dtype: torch.dtype) -> float:
    r"""Relative diagonal jitter used for kernel matrices of this dtype.

    :math:`10^{-6}` in double and :math:`10^{-5}` in single precision, as a fraction of the mean
    diagonal. One hundred coincident points factorise from about :math:`10^{-15}` and
    :math:`10^{-7}` on; the rest is a margin for kernel matrices that are rounded themselves.

    >>> default_jitter(torch.float64)
    1e-06
    """
    return 1e-6 if dtype == torch.float64 else 1e-5


def add_jitter(matrix: Tensor, jitter: float | Tensor) -> Tensor:
    r""":math:`K + \epsilon\, \tfrac1P \operatorname{tr}(K)\, I`, differentiable in ``matrix``.

    >>> add_jitter(2.0 * torch.eye(2), 0.5)
    tensor([[3., 0.],
            [0., 3.]])
    """
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    amount = (jitter * diagonal.mean(-1, keepdim=True)).expand(diagonal.shape)
    return matrix + torch.diag_embed(amount)


def cholesky(
    matrix: Tensor,
    *,
    jitter: float = 0.0,
    what: str = "matrix",
    strict: bool = False,
    plain: bool = False,
) -> Tensor:
    r"""Lower factor :math:`L` with :math:`L L^\top = K + \epsilon \bar k I`.

    ``jitter`` is relative to the mean diagonal. Where the factorisation fails it grows tenfold
    (starting from the dtype's default when ``jitter`` is zero) up to :data:`LARGEST_JITTER`, one
    per cent, only for the batch elements that need it; then :class:`CholeskyError` names ``what``.

    Args:
        matrix: symmetric, ``(..., P, P)``.
        jitter: relative diagonal jitter added before the first try.
        what: how error messages call this matrix, e.g. ``"the prior of layer 2"``.
        strict: fail at once instead of growing the jitter.
        plain: use ordinary autograd instead of the fused gradient.

    >>> cholesky(torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    prepared, lower = _positive_definite(matrix, jitter, what, strict)
    if plain:
        return torch.linalg.cholesky(prepared)
    flat = _fused.Cholesky.apply(flatten(prepared), flatten(lower))
    return flat.reshape(prepared.shape)


def factor(
    matrix: Tensor, *, jitter: float = 0.0, what: str = "matrix", plain: bool = False
) -> Factor:
    r"""The factor :math:`L` of :math:`K + \epsilon \bar k I` and its inverse, as one operation.

    Jitter and failure are handled as in :func:`cholesky`. The gradient with respect to
    :math:`K` costs four :math:`P^3` products however many solves were made with the factor.

    >>> lower, inverse = factor(torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
    >>> torch.allclose(lower @ inverse, torch.eye(2))
    True
    """
    prepared, lower = _positive_definite(matrix, jitter, what)
    if plain:
        lower = torch.linalg.cholesky(prepared)
        identity = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
        inverse = torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False)
        return Factor(lower, inverse)
    flat = _fused.CholeskyWithInverse.apply(flatten(prepared), flatten(lower))
    return Factor(*(part.reshape(prepared.shape) for part in flat))


def solve_lower(lower: Tensor, right: Tensor) -> Tensor:
    r""":math:`L^{-1} B` for lower-triangular :math:`L`, batches broadcast.

    >>> solve_lower(torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([[2.0], [2.0]]))
    tensor([[1.],
            [1.]])
    """
    return torch.linalg.solve_triangular(lower, right, upper=False)


def solve_upper(lower: Tensor, right: Tensor) -> Tensor:
    r""":math:`L^{-\top} B` for lower-triangular :math:`L`, batches broadcast.

    >>> solve_upper(torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([[3.0], [1.0]]))
    tensor([[1.],
            [1.]])
    """
    return torch.linalg.solve_triangular(lower.mT, right, upper=True)


def log_det(lower: Tensor) -> Tensor:
    r""":math:`\log|L L^\top| = 2 \sum_j \log L_{jj}`.

    >>> log_det(torch.eye(3))
    tensor(0.)
    """
    return 2.0 * lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def flatten(tensor: Tensor) -> Tensor:
    """All batch dimensions as one, which may be of size 1."""
    return tensor.unsqueeze(0) if tensor.ndim == 2 else tensor.flatten(0, -3)


def _positive_definite(
    matrix: Tensor, jitter: float, what: str, strict: bool = False
) -> tuple[Tensor, Tensor]:
    """``matrix`` with the smallest tried jitter that makes it factorise, and that factor."""
    candidate = add_jitter(matrix, jitter) if jitter else matrix
    lower, info = _fused.cholesky_ex(candidate.detach())
    if not info.any():
        return candidate, lower
    if not torch.isfinite(matrix).all():
        raise CholeskyError(
            f"{what} contains NaN or infinite values, so it cannot be factorised. "
            "Lower the learning rate, and check that inputs are finite and standardised."
        )
    if strict:
        raise CholeskyError(f"{what} is not positive definite.")
    start = jitter or default_jitter(matrix.dtype) / _GROWTH
    amount = torch.where(info != 0, start, jitter).to(matrix.dtype)
    while float(amount.max()) * _GROWTH < 1.01 * LARGEST_JITTER:
        amount = torch.where(info != 0, amount * _GROWTH, amount)
        candidate = add_jitter(matrix, amount[..., None])
        lower, info = _fused.cholesky_ex(candidate.detach())
        if not info.any():
            return candidate, lower
    raise CholeskyError(
        f"{what} is not positive definite, even with a relative jitter of "
        f"{amount.max().item():.0e}. Use float64, a larger jitter or fewer inducing points, "
        "or remove duplicate rows; during training, lower the learning rate."
    )
