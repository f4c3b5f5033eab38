r"""The numerical seam: Cholesky factors, jitter, triangular solves, log-determinants.

Layers and distributions state mathematics; this module decides how it is computed. The
operations that carry the cost of training have hand-written gradients in
:mod:`deepwishart._fused`, with compiled loops behind them on CPUs; setting ``plain=True`` on them
selects ordinary autograd through :mod:`torch.linalg`, which tests use as the reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from deepwishart import _fused, _native

__all__ = [
    "LARGEST_JITTER",
    "CholeskyError",
    "ClosedForm",
    "Factor",
    "GaussianKernel",
    "Observations",
    "RootDraw",
    "add_jitter",
    "cholesky",
    "closed_form",
    "condition",
    "default_jitter",
    "draw_root",
    "draw_rows",
    "factor",
    "gaussian_square",
    "log_det",
    "observe",
    "solve_lower",
    "solve_upper",
]

LARGEST_JITTER = 1e-2
_GROWTH = 10.0
_CACHED_ROWS = 1024


class CholeskyError(ArithmeticError):
    """A matrix that has to be positive definite is not, even after jitter."""


class Factor(NamedTuple):
    r""":math:`K = L L^\top` together with :math:`L^{-1}`, both lower triangular ``(..., P, P)``."""

    lower: Tensor
    inverse: Tensor


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


class RootDraw(NamedTuple):
    r"""What :func:`draw_root` returns.

    Attributes:
        inverse: :math:`L^{-1}`, ``(..., P, P)``.
        root: :math:`F = R A`, ``(S, P, m)``.
        weights: :math:`w = L^{-1} F`, ``(S, P, m)``.
        log_density: :math:`\nu \log(|R| / |\sqrt s L|) - |w|^2 / 2s`, ``(S,)``.
        closed: for :func:`draw_rows`; ``None`` where it has no use.
    """

    inverse: Tensor
    root: Tensor
    weights: Tensor
    log_density: Tensor
    closed: ClosedForm | None


class Observations(NamedTuple):
    r"""What :func:`observe` returns.

    Attributes:
        inverse: :math:`L_B^{-1}`, ``(..., P, P)``.
        projection: :math:`L_B^{-1} M^\top`, ``(..., P, P)``.
        whitened: :math:`w = L_B^{-1} M^\top v`, ``(..., P, D)``.
        log_det: :math:`\log|B|`, ``(...)``.
        trace: :math:`\operatorname{tr} B^{-1}`, ``(...)``.
        solved: :math:`|L_B^{-\top} w|^2`, ``(...)``.
    """

    inverse: Tensor
    projection: Tensor
    whitened: Tensor
    log_det: Tensor
    trace: Tensor
    solved: Tensor


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
    flat = _fused.Cholesky.apply(_flatten(prepared), _flatten(lower))
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
    flat = _fused.CholeskyWithInverse.apply(_flatten(prepared), _flatten(lower))
    return Factor(*(part.reshape(prepared.shape) for part in flat))


def draw_root(
    kernel: Tensor,
    scale_root: Tensor,
    mixing: Tensor,
    factor: Tensor,
    *,
    scale: float,
    degrees: float,
    what: str = "matrix",
    plain: bool = False,
) -> RootDraw:
    r"""The root :math:`F = R A` of a Gram matrix drawn with a mixed scale, and what is needed to
    score it and to condition on it:

    .. math:: K = L L^\top, \qquad R R^\top = (1-q)\, s K + q\, V V^\top, \qquad w = L^{-1} F.

    A kernel without sample dimension (the first layer) is factorised once, with the factors
    folded into columns. Failing factorisations are handled as in :func:`cholesky`.

    Args:
        kernel: :math:`K`, ``(P, P)`` or ``(S, P, P)``.
        scale_root: :math:`V`, ``(P, P)``.
        mixing: :math:`q \in (0, 1)`, a scalar.
        factor: :math:`A`, ``(S, P, m)``.
        scale: :math:`s`.
        degrees: :math:`\nu`, for the log density.
        what: what error messages call the layer.
        plain: use ordinary autograd instead of the fused gradient.

    >>> K, A = 4.0 * torch.eye(1), torch.ones(1, 1, 1)
    >>> draw = draw_root(K, torch.eye(1), torch.tensor(0.0), A, scale=1.0, degrees=1.0)
    >>> draw.root.item(), draw.weights.item(), draw.log_density.item()
    (2.0, 1.0, -0.5)
    """
    if not plain and _native.operations(kernel, factor) is not None:
        shared = kernel.ndim == 2
        samples, size, rank = factor.shape
        columns = factor.transpose(0, 1).reshape(1, size, -1) if shared else factor
        groups = samples if shared else 1
        inverse, root, weights, density, form, solved, failures = _fused.DrawRoot.apply(
            _flatten(kernel), scale_root, mixing, columns, scale, degrees, groups
        )
        if not failures:
            if shared:
                root, weights = (
                    part.reshape(size, samples, rank).transpose(0, 1) for part in (root, weights)
                )
            closed = None if shared else ClosedForm(kernel, root, form, solved)
            return RootDraw(inverse.reshape(kernel.shape), root, weights, density.flatten(), closed)
    prior = _factor(kernel, what=f"the kernel matrix of {what}", plain=plain)
    mixed = (1 - mixing) * scale * kernel + mixing * (scale_root @ scale_root.mT)
    lower = cholesky(mixed, what=f"the posterior scale of {what}", plain=plain)
    root = lower @ factor
    weights = prior.inverse @ root
    log_volume = 0.5 * (log_det(lower) - log_det(math.sqrt(scale) * prior.lower))
    density = degrees * log_volume - (0.5 / scale) * weights.square().sum((-2, -1))
    return RootDraw(prior.inverse, root, weights, density, None)


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


def observe(
    kernel: Tensor,
    root: Tensor,
    targets: Tensor,
    *,
    scale: float = 1.0,
    what: str = "matrix",
    plain: bool = False,
) -> Observations:
    r"""Condition :math:`\mathcal N(0, s K)` on observing :math:`M^\top v` with unit noise:
    :math:`B = I + s M^\top K M = L_B L_B^\top`. Since :math:`B \ge I`, no jitter is needed.

    Args:
        kernel: :math:`K`, ``(..., P, P)``.
        root: :math:`M`, ``(P, P)``.
        targets: :math:`v`, ``(P, D)``.
        scale: :math:`s`.
        what: how error messages call :math:`B`.
        plain: use ordinary autograd instead of the fused gradient.

    >>> one = torch.ones(1, 1)
    >>> observed = observe(3.0 * one, one, 4.0 * one)  # B = 4
    >>> observed.whitened.item(), observed.trace.item(), observed.solved.item()
    (2.0, 0.25, 1.0)
    """
    if not plain and _native.operations(kernel) is not None:
        inverse, projection, whitened, numbers, failures = _fused.Observe.apply(
            _flatten(kernel), root, targets, scale
        )
        if not failures:
            shape = kernel.shape[:-2]
            numbers = numbers.reshape(*shape, 3)
            return Observations(
                inverse.reshape(kernel.shape),
                projection.reshape(kernel.shape),
                whitened.reshape(*kernel.shape[:-1], -1),
                *numbers.unbind(-1),
            )
    inner = scale * (root.mT @ kernel @ root)
    identity = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
    parts = factor(inner + identity, what=what, plain=plain)
    projection = parts.inverse @ root.mT
    whitened = projection @ targets
    return Observations(
        parts.inverse,
        projection,
        whitened,
        log_det(parts.lower),
        parts.inverse.square().sum((-2, -1)),
        (parts.inverse.mT @ whitened).square().sum((-2, -1)),
    )


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
        kernel = _fused.GaussianSquare.apply(
            _flatten(features), log_height, log_lengthscale, jitter
        )
        return kernel.reshape(*features.shape[:-1], features.shape[-2])
    half = GaussianKernel(features, features, log_height - math.log(2.0), log_lengthscale).form()
    matrix = half + half.mT
    matrix.detach().diagonal(dim1=-2, dim2=-1).copy_(log_height.detach().exp())
    return add_jitter(matrix, jitter) if jitter else matrix


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

    >>> inverse = factor(torch.tensor([[2.0]])).inverse  # a single inducing point, K_ii = 2
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
    first, *others, last = map(_flatten, tensors)
    if isinstance(cross, GaussianKernel):
        scalars = (cross.log_height, cross.log_lengthscale)
        return _fused.GaussianCondition.apply(first, *others, *scalars, last)
    return _fused.Condition.apply(first, *others, last)


def _flatten(tensor: Tensor) -> Tensor:
    """All batch dimensions as one, which may be of size 1."""
    return tensor.unsqueeze(0) if tensor.ndim == 2 else tensor.flatten(0, -3)


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


_factor = factor  # the function, where an argument has its name


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
