r"""The numerical seam: jitter, factorisations, triangular solves and log-determinants.

Layers and distributions state mathematics; this module decides how a matrix that should be positive
definite is factorised, and what happens when rounding says that it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart.numerics.operation import compiled, contiguous, operation

__all__ = [
    "LARGEST_JITTER",
    "CholeskyError",
    "Factor",
    "add_jitter",
    "cholesky",
    "default_jitter",
    "factor",
    "flatten",
    "flatten_all",
    "log_det",
    "solve_lower",
    "solve_upper",
    "with_jitter",
]

LARGEST_JITTER = 1e-2
_GROWTH = 10.0


class CholeskyError(ArithmeticError):
    """A matrix that has to be positive definite is not, even after jitter; ``what`` names it."""

    def __init__(self, message: str, what: str = "matrix") -> None:
        super().__init__(message)
        self.what = what


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


def add_jitter(matrix: Tensor, jitter: float | Tensor, relative_to: Tensor | None = None) -> Tensor:
    r""":math:`K + \epsilon\, \bar k\, I` with :math:`\bar k` the mean diagonal of ``relative_to``,
    of :math:`K` itself if that is ``None``; differentiable.

    A conditional covariance is small where its prior is not, and rounded like it: its jitter is
    relative to the prior's diagonal.

    >>> add_jitter(2.0 * torch.eye(2), 0.5)
    tensor([[3., 0.],
            [0., 3.]])
    """
    diagonal = (matrix if relative_to is None else relative_to).diagonal(dim1=-2, dim2=-1)
    amount = jitter * diagonal.mean(-1, keepdim=True)
    return matrix + torch.diag_embed(amount.expand(matrix.shape[:-1]))


def cholesky(
    matrix: Tensor,
    *,
    jitter: float = 0.0,
    relative_to: Tensor | None = None,
    what: str = "matrix",
    strict: bool = False,
) -> Tensor:
    r"""Lower factor :math:`L` with :math:`L L^\top = K + \epsilon \bar k I`.

    ``jitter`` is relative to the mean diagonal. Where the factorisation fails it grows tenfold
    (starting from the dtype's default when ``jitter`` is zero) up to :data:`LARGEST_JITTER`, one
    per cent, only for the batch elements that need it; then :class:`CholeskyError` names ``what``.

    Args:
        matrix: symmetric, ``(..., P, P)``.
        jitter: relative diagonal jitter added before the first try.
        relative_to: matrix whose diagonal the jitter is relative to, as in :func:`add_jitter`.
        what: how error messages call this matrix, e.g. ``"the prior of layer 2"``.
        strict: fail at once instead of growing the jitter.

    >>> cholesky(torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    (lower,) = with_jitter(
        torch.linalg.cholesky_ex,
        matrix,
        jitter=jitter,
        relative_to=relative_to,
        what=what,
        strict=strict,
    )
    return lower


def factor(matrix: Tensor, *, jitter: float = 0.0, what: str = "matrix") -> Factor:
    r"""The factor :math:`L` of :math:`K + \epsilon \bar k I` and its inverse, as one operation;
    jitter and failure are handled as in :func:`cholesky`.

    >>> lower, inverse = factor(torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
    >>> torch.allclose(lower @ inverse, torch.eye(2))
    True
    """
    return Factor(*with_jitter(cholesky_inverse, matrix, jitter=jitter, what=what))


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


def with_jitter(
    factorise: Callable[[Tensor], Sequence[Tensor]],
    matrix: Tensor,
    *,
    jitter: float = 0.0,
    relative_to: Tensor | None = None,
    what: str = "matrix",
    strict: bool = False,
) -> Sequence[Tensor]:
    """All but the last result of ``factorise``, which says where it failed, with the smallest
    jitter tried that makes it succeed.

    >>> (lower,) = with_jitter(torch.linalg.cholesky_ex, torch.ones(2, 2))
    >>> bool(lower[1, 1] > 0)
    True
    """
    *found, failed = factorise(add_jitter(matrix, jitter, relative_to) if jitter else matrix)
    if not failed.any():
        return found
    if not torch.isfinite(matrix).all():
        raise CholeskyError(
            f"{what} contains NaN or infinite values, so it cannot be factorised. "
            "Lower the learning rate, and check that inputs are finite and standardised.",
            what,
        )
    if strict:
        raise CholeskyError(f"{what} is not positive definite.", what)
    first = _GROWTH * jitter or default_jitter(matrix.dtype)
    amount = torch.full_like(failed, jitter, dtype=matrix.dtype)
    while True:
        more = torch.where(failed != 0, (_GROWTH * amount).clamp_min(first), amount)
        if float(more.max()) > 1.01 * LARGEST_JITTER:
            break
        amount = more
        *found, failed = factorise(add_jitter(matrix, amount[..., None], relative_to))
        if not failed.any():
            return found
    raise CholeskyError(
        f"{what} is not positive definite, even with a relative jitter of "
        f"{amount.max().item():.0e}. Use float64, a larger jitter or fewer inducing points, "
        "or remove duplicate rows; during training, lower the learning rate.",
        what,
    )


def plain_cholesky_inverse(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r""":math:`K \mapsto (L, L^{-1})` with :math:`K = L L^\top`, both ``(..., P, P)``, and per
    matrix 0 or the pivot that failed ``(...)``; where one did, the factors are not valid."""
    lower, failed = torch.linalg.cholesky_ex(matrix)
    identity = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    inverse = torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False)
    return lower, inverse, failed


cholesky_inverse = operation(plain_cholesky_inverse)


@compiled(plain_cholesky_inverse)
def _(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lower, inverse, failed = unflatten(CholeskyInverse.apply(flatten(matrix)), matrix)
    return lower, inverse, failed


class CholeskyInverse(torch.autograd.Function):
    r"""Let :math:`X = L^{-1}\, dK\, L^{-\top}` and :math:`\Phi` keep the lower triangle with half
    the diagonal. Then :math:`dL = L\, \Phi(X)` and :math:`dL^{-1} = -\Phi(X)\, L^{-1}`, so

    .. math:: \langle \bar L, dL \rangle + \langle \overline{L^{-1}}, dL^{-1} \rangle
              = \langle L^\top \bar L - \overline{L^{-1}} L^{-\top}, \Phi(X) \rangle
              = \langle M, \Phi(X) \rangle

    and :math:`\bar K = L^{-\top}\, \tfrac12 (\Phi(M) + \Phi(M)^\top)\, L^{-1}`. At most four
    products of size :math:`P^3`, however many solves were made with the factor. Entries of the
    incoming gradients above the diagonal never reach the lower triangle of :math:`M`.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        lower, inverse, failed = torch.ops.deepwishart.cholesky_inverse_forward(matrix)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(failed)
        ctx.save_for_backward(lower, inverse)
        return lower, inverse, failed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Tensor | None:
        if gradients[0] is None and gradients[1] is None:
            return None
        incoming = map(contiguous, gradients[:2])
        found: Tensor = torch.ops.deepwishart.cholesky_inverse_backward(
            *ctx.saved_tensors, *incoming
        )
        return found


def flatten(tensor: Tensor) -> Tensor:
    """All batch dimensions as one, which may be of size 1, and contiguous: what compiled loops
    take."""
    if tensor.ndim == 3:
        return tensor.contiguous()
    return (tensor.unsqueeze(0) if tensor.ndim == 2 else tensor.flatten(0, -3)).contiguous()


def flatten_all(*tensors: Tensor) -> list[Tensor]:
    """Matrices whose batch dimensions broadcast, with one in common."""
    batches = [t.shape[:-2] for t in tensors]
    if batches.count(batches[0]) == len(batches):  # usual; to broadcast costs a small product
        return [flatten(t) for t in tensors]
    batch = torch.broadcast_shapes(*batches)
    return [flatten(t.expand(*batch, *t.shape[-2:])) for t in tensors]


def unflatten(found: Sequence[Tensor], *like: Tensor) -> list[Tensor]:
    """What loops found, with the batch dimensions of what they were given."""
    batch = torch.broadcast_shapes(*(t.shape[:-2] for t in like))
    return [t.reshape(batch + t.shape[1:]) for t in found]
