r"""Rows given inducing points: kernel blocks, conditional moments, and draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from deepwishart import _fused, _native
from deepwishart.linalg.factors import add_jitter, flatten

__all__ = [
    "ClosedForm",
    "GaussianKernel",
    "closed_form",
    "condition",
    "draw_rows",
    "gaussian_square",
]

_CACHED_ROWS = 1024


class ClosedForm(NamedTuple):
    r"""What :func:`draw_rows` needs to send gradients straight to :math:`K_{ii}` and :math:`F_i`.

    Attributes:
        kernel: :math:`K_{ii}` with jitter, ``(S, P, P)``.
        root: :math:`F_i`, ``(S, P, D)``.
        form: :math:`K_{ii}^{-1}`, or :math:`L^{-1}` in single precision; no gradient.
        solved: :math:`K_{ii}^{-1} F_i`; no gradient.
    """

    kernel: Tensor
    root: Tensor
    form: Tensor
    solved: Tensor


@dataclass(frozen=True)
class GaussianKernel:
    r"""The block :math:`K_{ij} = h\, e^{-|x_i - y_j|^2/2\ell^2}`, not yet formed.

    :func:`condition` forms it in cache, together with the products that consume it.

    Args:
        left: :math:`x`, ``(..., P, D)``.
        right: :math:`y`, ``(..., N, D)``.
        log_height: :math:`\log h`, a scalar.
        log_lengthscale: :math:`\log \ell`, a scalar.

    >>> zero = torch.tensor(0.0)
    >>> GaussianKernel(torch.zeros(1, 2), torch.zeros(3, 2), zero, zero).form()
    tensor([[1., 1., 1.]])
    """

    left: Tensor
    right: Tensor
    log_height: Tensor
    log_lengthscale: Tensor

    def form(self) -> Tensor:
        r"""The block, ``(..., P, N)``, from one product: with scaled features :math:`a, b`,

        .. math:: [a, \log h - |a|^2/2, 1] \cdot [b, 1, -|b|^2/2] = \log h - |a - b|^2/2,

        so that a product, a clamp and an exponential in place are all the work of that size.
        Features are centred first, on a constant: distances do not change, and the rounding
        that cancellation leaves is kept small.
        """
        centre = self.left.detach().mean(-2, keepdim=True)
        factor = (-self.log_lengthscale).exp()
        a, b = (self.left - centre) * factor, (self.right - centre) * factor
        row = (self.log_height - 0.5 * a.square().sum(-1)).unsqueeze(-1)
        column = -0.5 * b.square().sum(-1).unsqueeze(-1)
        a = torch.cat([a, row, torch.ones_like(row)], dim=-1)
        b = torch.cat([b, torch.ones_like(column), column], dim=-1)
        # With equal batch shapes matmul is one bmm whose result is no view, so that the
        # in-place exponential costs autograd no copy.
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
        exponent = torch.matmul(a, b.mT)
        # Only rounding can exceed the largest exponent: by little as a rule, by a lot in single
        # precision where features are far larger than their distances. Autograd need not know
        # that it is removed: the slopes are right as they are, and masks would double the cost.
        exponent.detach().clamp_(max=self.log_height.detach())
        return exponent.exp_()


def gaussian_square(
    features: Tensor,
    log_height: Tensor,
    log_lengthscale: Tensor,
    *,
    jitter: float = 0.0,
    plain: bool = False,
) -> Tensor:
    r""":math:`K_{ij} = h\, e^{-|x_i - x_j|^2/2\ell^2}`, exactly symmetric, with exactly
    :math:`h\,(1 + \text{jitter})` on the diagonal.

    Args:
        features: :math:`x`, ``(..., P, D)``.
        log_height: :math:`\log h`, a scalar.
        log_lengthscale: :math:`\log \ell`, a scalar.
        jitter: relative diagonal jitter, as :func:`add_jitter` adds it.
        plain: use ordinary autograd instead of the fused gradient.

    >>> gaussian_square(torch.zeros(2, 3), torch.tensor(0.0), torch.tensor(0.0))
    tensor([[1., 1.],
            [1., 1.]])
    """
    if not plain and _native.operations(features) is not None:
        kernel = _fused.GaussianSquare.apply(flatten(features), log_height, log_lengthscale, jitter)
        return kernel.reshape(*features.shape[:-1], features.shape[-2])
    half = GaussianKernel(features, features, log_height - math.log(2.0), log_lengthscale).form()
    matrix = half + half.mT
    matrix.detach().diagonal(dim1=-2, dim2=-1).copy_(log_height.detach().exp())
    return add_jitter(matrix, jitter) if jitter else matrix


def closed_form(
    kernel: Tensor, inverse: Tensor, root: Tensor, weights: Tensor
) -> ClosedForm | None:
    r"""The closed form for :func:`draw_rows`, or ``None`` where that has no use for it.

    Args:
        kernel: :math:`K_{ii}`, ``(..., P, P)``.
        inverse: :math:`L^{-1}`, ``(..., P, P)``.
        root: :math:`F_i`, ``(S, P, D)``.
        weights: :math:`L^{-1} F_i`, ``(S, P, D)``.

    >>> one = torch.ones(1, 1)
    >>> closed_form(one, one, one[None], one[None]) is None  # no sample dimension in the kernel
    True
    """
    if kernel.ndim != 3 or _native.operations(kernel) is None:
        return None
    with torch.no_grad():
        form = inverse.mT @ inverse if inverse.dtype == torch.float64 else inverse
        return ClosedForm(kernel, root, form.detach().contiguous(), inverse.mT @ weights)


def condition(
    projection: Tensor,
    cross: Tensor | GaussianKernel,
    diagonal: Tensor,
    weights: Tensor,
    *,
    plain: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""Gaussian conditional of data points given whitened inducing weights.

    .. math:: A = H K_{it}, \qquad m_t = A^\top w, \qquad v_t = k_{tt} - \sum_p A_{pt}^2

    With :math:`H = L^{-1}` and :math:`w = L^{-1} F_i` this is the conditional of the paper's
    Eq. (Ft|Fi). A kernel without sample dimension (the first layer) is projected once and its
    weights are folded into columns.

    Args:
        projection: :math:`H`, ``(..., P, P)``.
        cross: :math:`K_{it}`, ``(..., P, N)``, possibly not yet formed.
        diagonal: :math:`k_{tt}`, ``(..., N)``.
        weights: :math:`w`, ``(..., P, D)``.
        plain: use ordinary autograd instead of the fused gradient.

    Returns:
        mean ``(..., N, D)`` and variance ``(..., N)``; the variance is floored at the dtype's
        machine epsilon times :math:`k_{tt}`, and has no sample dimension where the kernel has none.

    >>> inverse = torch.tensor([[2.0]]).rsqrt()  # a single inducing point, K_ii = 2
    >>> K_it, k_tt, F_i = torch.tensor([[1.0]]), torch.tensor([2.0]), torch.tensor([[4.0]])
    >>> mean, variance = condition(inverse, K_it, k_tt, inverse @ F_i)
    >>> round(mean.item(), 4), round(variance.item(), 4)
    (2.0, 1.5)
    """
    shared = diagonal.ndim == 1 and weights.ndim > 2
    if shared:
        batch, width = weights.shape[:-2], weights.shape[-1]
        weights = weights.movedim(-2, 0).reshape(weights.shape[-2], -1)
    native = not plain and _native.operations(projection) is not None
    if isinstance(cross, GaussianKernel) and not native:
        cross = cross.form()
    if plain:
        assert isinstance(cross, Tensor)
        projected = projection @ cross
        mean, squares = projected.mT @ weights, projected.square().sum(-2)
    else:
        flat = [_fused_condition(projection, piece, weights) for piece in _row_pieces(cross)]
        mean, squares = (
            torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
            for parts in zip(*flat, strict=True)
        )
        mean, squares = (
            part.reshape(*diagonal.shape[:-1], *part.shape[1:]) for part in (mean, squares)
        )
    if shared:
        mean = mean.reshape(-1, *batch, width).movedim(0, -2)
    variance = diagonal - squares
    floor = torch.finfo(variance.dtype).eps * diagonal.detach()
    return mean, torch.maximum(variance, floor)


def draw_rows(
    projection: Tensor,
    cross: Tensor | GaussianKernel,
    diagonal: Tensor,
    weights: Tensor,
    noise: Tensor,
    *,
    scale: float,
    closed: ClosedForm | None = None,
    plain: bool = False,
) -> Tensor:
    r"""A draw :math:`m_t + \sqrt{s\, v_t}\, \epsilon_t` with the moments of :func:`condition`.

    Args:
        projection: as in :func:`condition`.
        cross: likewise.
        diagonal: likewise; with a :class:`GaussianKernel` it is the height.
        weights: likewise.
        noise: standard normal :math:`\epsilon`, ``(S, N, D)``, or ``(S, 1, D)`` for all rows.
        scale: :math:`s`.
        closed: another way to say ``projection`` and ``weights``, with cheaper gradients.
        plain: use ordinary autograd instead of the fused gradient.

    Returns:
        ``(S, N, D)``.

    >>> one = torch.ones(1, 1)
    >>> draw_rows(one, 0.5 * one, one[0], one, 2.0 * one[None], scale=1.0)
    tensor([[[2.2321]]])
    """
    if closed is not None and not plain and isinstance(cross, GaussianKernel):
        noise = noise.expand(-1, diagonal.shape[-1], -1)
        pieces = [
            _fused.GaussianSample.apply(
                closed.kernel,
                closed.root,
                cross.left,
                right,
                cross.log_height,
                cross.log_lengthscale,
                closed.form,
                closed.solved,
                epsilon,
                scale,
            )
            for right, epsilon in zip(
                _pieces(cross.right, dim=-2), _pieces(noise, dim=-2), strict=True
            )
        ]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-2)
    mean, variance = condition(projection, cross, diagonal, weights, plain=plain)
    return torch.addcmul(mean, (scale * variance).sqrt().unsqueeze(-1), noise)


def _row_pieces(cross: Tensor | GaussianKernel) -> Sequence[Tensor] | Sequence[GaussianKernel]:
    if isinstance(cross, Tensor):
        return _pieces(cross, dim=-1)
    return [replace(cross, right=part) for part in _pieces(cross.right, dim=-2)]


def _pieces(tensor: Tensor, dim: int) -> Sequence[Tensor]:
    """Many rows in pieces whose blocks stay in cache: cost then grows linearly with rows."""
    if tensor.shape[dim] <= _CACHED_ROWS:
        return [tensor]
    pieces: tuple[Tensor, ...] = tensor.split(_CACHED_ROWS, dim=dim)
    return pieces


def _fused_condition(
    projection: Tensor, cross: Tensor | GaussianKernel, weights: Tensor
) -> tuple[Tensor, Tensor]:
    parts = (cross.left, cross.right) if isinstance(cross, GaussianKernel) else (cross,)
    tensors: Sequence[Tensor] = (projection, *parts, weights)
    shapes = {t.shape[:-2] for t in tensors}
    if len(shapes) > 1:
        batch = torch.broadcast_shapes(*shapes)
        tensors = [t.expand(*batch, *t.shape[-2:]) for t in tensors]
    first, *others, last = map(flatten, tensors)
    if isinstance(cross, GaussianKernel):
        scalars = (cross.log_height, cross.log_lengthscale)
        return _fused.GaussianCondition.apply(first, *others, *scalars, last)
    return _fused.Condition.apply(first, *others, last)
