r"""Rows given inducing points: their moments, and draws of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from deepwishart.numerics.gaussian import (
    Cross,
    GaussianKernel,
    cross_gradient_shapes,
    cross_gradients,
    cross_shapes,
    formed_from,
    kept_cross,
    parts_of,
    row_blocks,
    row_pieces,
)
from deepwishart.numerics.linalg import flatten_all
from deepwishart.numerics.operation import (
    compiled,
    first_order,
    operation,
    or_zero,
    shapes,
    shapes_like,
)

__all__ = ["Conditional", "condition", "condition_on_form", "draw_rows"]


class Conditional(NamedTuple):
    r"""Sampled inducing points, as rows are conditioned on them.

    Attributes:
        covariance: :math:`K = L L^\top` with jitter, ``(P, P)`` or ``(S, P, P)``.
        inverse: :math:`H = L^{-1}`, likewise.
        root: :math:`F_i`, ``(S, P, D)``.
        weights: :math:`w = H F_i`, ``(S, P, D)``.
        form: :math:`K^{-1}`, or :math:`H` in single precision, as a constant.
        solved: :math:`K^{-1} F_i` as a constant.
    """

    covariance: Tensor
    inverse: Tensor
    root: Tensor
    weights: Tensor
    form: Tensor
    solved: Tensor

    @classmethod
    def of(cls, covariance: Tensor, inverse: Tensor, root: Tensor) -> Conditional:
        r"""From :math:`K`, :math:`L^{-1}` and :math:`F_i`.

        >>> one = torch.ones(1, 1)
        >>> Conditional.of(one, one, 2 * one[None]).weights
        tensor([[[2.]]])
        """
        weights = inverse @ root
        return cls(covariance, inverse, root, weights, *constants(inverse, weights))

    def widened(self, width: int) -> Conditional:
        """With zero columns, for layers that are wider than there are inducing points."""
        missing = width - self.root.shape[-1]
        if missing == 0:
            return self
        columns = (self.root, self.weights, self.solved)
        root, weights, solved = (torch.nn.functional.pad(t, (0, missing)) for t in columns)
        return self._replace(root=root, weights=weights, solved=solved)


@torch.no_grad()
def constants(inverse: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""What :class:`Conditional` calls ``form`` and ``solved``."""
    double = inverse.dtype == torch.float64
    form = inverse.mT @ inverse if double else inverse.detach().clone()
    return form.contiguous(), inverse.mT @ weights


def draw_rows(given: Conditional, cross: Cross, diagonal: Tensor, epsilon: Tensor) -> Tensor:
    r"""A draw :math:`m_t + \sqrt{v_t}\, \epsilon_t` with the moments of :func:`condition`.

    Args:
        given: the inducing points.
        cross: :math:`K_{it}`, ``(..., P, N)``, possibly not yet formed.
        diagonal: :math:`k_{tt}`, ``(..., N)``; with a :class:`GaussianKernel` it is the height.
        epsilon: standard normal, ``(S, N, D)``, or ``(S, 1, D)`` for all rows.

    Returns:
        ``(S, N, D)``.

    >>> one = torch.ones(1, 1)
    >>> draw_rows(Conditional.of(one, one, one[None]), 0.5 * one, one[0], 2.0 * one[None])
    tensor([[[2.2321]]])
    """
    if given.covariance.ndim == 3 and isinstance(cross, GaussianKernel):
        sides = cross.left, cross.right, cross.log_height, cross.log_lengthscale
        return gaussian_draw(*given, *sides, epsilon)
    mean, variance = condition(given.inverse, cross, diagonal, given.weights)
    return torch.addcmul(mean, variance.sqrt().unsqueeze(-1), epsilon)


def condition(
    projection: Tensor, cross: Cross, diagonal: Tensor, weights: Tensor
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
    mean, squares = moments(projection, weights, *parts_of(cross))
    mean, squares = mean.reshape(*diagonal.shape, -1), squares.reshape(diagonal.shape)
    if shared:
        mean = mean.reshape(-1, *batch, width).movedim(0, -2)
    return mean, _floored(diagonal, squares)


def _floored(diagonal: Tensor, squares: Tensor) -> Tensor:
    floor = torch.finfo(diagonal.dtype).eps * diagonal.detach()
    return torch.maximum(diagonal - squares, floor)


def plain_moments(
    projection: Tensor,
    weights: Tensor,
    cross: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    log_height: Tensor | None,
    log_lengthscale: Tensor | None,
) -> tuple[Tensor, Tensor]:
    r""":math:`m`, ``(..., N, D)``, and :math:`\sum_p A_{pt}^2`, ``(..., N)``; of
    :math:`K_{it}` what :func:`~deepwishart.numerics.gaussian.parts_of` makes of it."""
    projected = projection @ formed_from(cross, left, right, log_height, log_lengthscale)
    return projected.mT @ weights, projected.square().sum(-2)


moments = operation(plain_moments)


@compiled(plain_moments)
def _(projection: Tensor, weights: Tensor, *parts: Tensor | None) -> tuple[Tensor, Tensor]:
    found = [Condition.apply(*block)[:2] for block in row_blocks(parts, projection, weights)]
    if len(found) > 1:
        found = [[torch.cat(pieces, dim=1) for pieces in zip(*found, strict=True)]]
    (mean, squares) = found[0]
    return mean, squares


class Condition(torch.autograd.Function):
    r""":math:`(H, K_{it}, w) \mapsto (m, s)`, :math:`s_t = \sum_p A_{pt}^2`. With incoming
    gradients :math:`\bar m, \bar s`:

    .. math:: \bar A = w \bar m^\top + 2 A \operatorname{diag}(\bar s), \quad
              \bar w = A \bar m, \quad \bar H = \bar A K_{it}^\top, \quad
              \bar K_{it} = H^\top \bar A

    One product of size :math:`P^2 N` forward and two backward; everything else is
    :math:`P N D`, folded into those three, or one pass over a :math:`P \times N` block. In double
    precision squares are computed from :math:`C = H^\top H` as :math:`k_t^\top C k_t`, which saves
    one of the two products of the gradient: :math:`\bar C = K_{it} \operatorname{diag}(\bar s)
    K_{it}^\top` and :math:`\bar H = 2 H \bar C + w (K_{it} \bar m)^\top`. It rounds by about
    :math:`\epsilon |C| k_{tt}`, which is what sets whole models of many inducing points apart from
    the plain path (docs, "Performance").

    The kernel matrix may be formed on the way, :math:`K_{it} = h\, e^{-|x_i - y_t|^2/2\ell^2}`.
    With :math:`a = x/\ell, b = y/\ell` and :math:`\bar E = \bar K_{it} \odot K_{it}` the gradient
    of the exponent, then

    .. math:: \bar a_i = \sum_t \bar E_{it} (b_t - a_i), \quad
              \bar b_t = \sum_i \bar E_{it} (a_i - b_t), \quad
              \overline{\log h} = \sum_{it} \bar E_{it}, \quad
              \overline{\log \ell} = -\sum_i a_i^\top \bar a_i - \sum_t b_t^\top \bar b_t,

    the last because the exponent is homogeneous of degree two in the features.
    """

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        return torch.ops.deepwishart.condition_forward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        mean, squares, product, *kept = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(product, *kept)
        cross, *features = kept_cross(inputs, kept)
        ctx.save_for_backward(*inputs[:2], cross, product, *features, mean, squares)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        *kept, mean, squares = ctx.saved_tensors
        projection, weights, *rest = torch.ops.deepwishart.condition_backward(
            *kept, or_zero(gradients[0], mean), or_zero(gradients[1], squares)
        )
        return projection, weights, *cross_gradients(rest, formed=kept[-1] is not None)


@shapes("condition_forward")
def _(
    projection: Tensor, weights: Tensor, cross: Tensor | None, left: Any, right: Any, *scales: Any
) -> tuple[Tensor, ...]:
    batch, size, width = weights.shape
    kept = cross_shapes(cross, left, right)
    rows = (kept[0] if cross is None else cross).shape[2]
    shapes = ((batch, rows, width), (batch, rows), (batch, size + width, rows))
    return *(weights.new_empty(shape) for shape in shapes), *kept


@shapes("condition_backward")
def _(
    projection: Tensor, weights: Tensor, cross: Tensor, product: Tensor, a: Any, b: Any, *rest: Any
) -> tuple[Tensor, ...]:
    like = torch.empty_like(projection), torch.empty_like(weights)
    return *like, *cross_gradient_shapes(cross, a, b)


def plain_gaussian_draw(
    covariance: Tensor,
    inverse: Tensor,
    root: Tensor,
    weights: Tensor,
    form: Tensor,
    solved: Tensor,
    left: Tensor,
    right: Tensor,
    log_height: Tensor,
    log_lengthscale: Tensor,
    epsilon: Tensor,
) -> Tensor:
    """The definition of :func:`draw_rows` with a kernel matrix that is not yet formed. The gradient
    goes through ``inverse`` and ``weights`` here, and through ``covariance`` and ``root`` in the
    CPU kernel."""
    cross = GaussianKernel(left, right, log_height, log_lengthscale)
    mean, squares = plain_moments(inverse, weights, cross.form(), None, None, None, None)
    variance = _floored(cross.diagonal().expand(squares.shape), squares)
    return torch.addcmul(mean, variance.sqrt().unsqueeze(-1), epsilon)


gaussian_draw = operation(plain_gaussian_draw)


@compiled(plain_gaussian_draw)
def _(
    covariance: Tensor,
    inverse: Tensor,
    root: Tensor,
    weights: Tensor,
    form: Tensor,
    solved: Tensor,
    left: Tensor,
    right: Tensor,
    log_height: Tensor,
    log_lengthscale: Tensor,
    epsilon: Tensor,
) -> Tensor:
    epsilon = epsilon.expand(-1, right.shape[-2], -1)
    pieces = []
    for rows, noise in zip(row_pieces(right, dim=-2), row_pieces(epsilon, dim=-2), strict=True):
        *blocks, noise = flatten_all(covariance, root, form, solved, left, rows, noise)
        pieces.append(GaussianDraw.apply(*blocks, log_height, log_lengthscale, noise)[0])
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-2)


class GaussianDraw(torch.autograd.Function):
    r"""A draw of rows with :math:`K_{it} = h\, e^{-|x_i - y_t|^2/2\ell^2}` formed on the way.

    .. math:: F_t = m_t + d_t\, \epsilon_t, \quad m_t = k_t^\top K_{ii}^{-1} F_i, \quad
              d_t^2 = \max(h - s_t, \text{floor}), \quad s_t = k_t^\top K_{ii}^{-1} k_t

    The gradient goes to :math:`K_{ii}` and :math:`F_i` directly, past any factor. With
    :math:`B = K_{ii}^{-1} K_{it}`, :math:`\bar m = \bar F_t` and
    :math:`\bar s_t = -\tfrac{1}{2 d_t}\, \bar F_t^\top \epsilon_t` (0 where floored),

    .. math:: \bar K_{it} = 2 B \operatorname{diag}(\bar s) + K_{ii}^{-1} F_i\, \bar m^\top, \quad
              \bar F_i = B \bar m, \quad
              \bar K_{ii} = -\tfrac12 \big(\bar K_{it} B^\top
              + \bar F_i\, (K_{ii}^{-1} F_i)^\top\big),

    which is symmetric: one product of size :math:`P^2 N` forward and one backward (two in single
    precision, where :math:`K_{ii}^{-1}` is too inexact and :math:`L^{-1}` is used), and none of
    size :math:`P^3`. Features and height receive the rest as in
    :class:`Condition`. ``form`` and ``solved`` are taken
    as known functions of ``kernel`` and ``root``.
    """

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        return torch.ops.deepwishart.gaussian_sample_forward(*inputs[2:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, _, form, solved, _, _, log_height, log_lengthscale, epsilon = inputs
        _, cross, product, a, b, deviation = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(cross, product, a, b, deviation)
        kept = (form, solved, a, b, cross, product, epsilon, deviation)
        ctx.save_for_backward(*kept, log_height, log_lengthscale)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        kept = ctx.saved_tensors  # epsilon is the seventh; checkpoints allow one look
        kernel, root, *features = torch.ops.deepwishart.gaussian_sample_backward(
            *kept, or_zero(gradients[0], kept[6])
        )
        return kernel, root, None, None, *features, None


@shapes("gaussian_sample_forward")
def _(form: Tensor, solved: Tensor, left: Tensor, right: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    batch, size, width = solved.shape
    rows = right.shape[1]
    shapes = ((batch, rows, width), (batch, size, rows), (batch, size + width, rows))
    drawn, cross, product = (left.new_empty(shape) for shape in shapes)
    kept = torch.empty_like(left), torch.empty_like(right), left.new_empty(batch, rows)
    return drawn, cross, product, *kept


shapes_like("gaussian_sample_backward", 0, 1, 2, 3, 8, 9)


def condition_on_form(
    form: Tensor, solved: Tensor, cross: Cross, diagonal: Tensor
) -> tuple[Tensor, Tensor]:
    r"""The moments of rows from a quadratic form that is known: :math:`m_t = k_t^\top s` and
    :math:`v_t = k_{tt} - k_t^\top C k_t`, in one pass and without a gradient.

    For double precision, in which :math:`C` is exact enough where :math:`H` is not needed.

    Args:
        form: :math:`C`, ``(..., P, P)``.
        solved: :math:`s`, ``(..., P, D)``.
        cross: :math:`K_{it}`, ``(..., P, N)``, possibly not yet formed.
        diagonal: :math:`k_{tt}`, ``(..., N)``.

    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> mean, variance = condition_on_form(0.5 * one, 2.0 * one, one, one[0])
    >>> mean.item(), variance.item()
    (2.0, 0.5)
    """
    return moments_on_form(form, solved, diagonal, *parts_of(cross))


def plain_moments_on_form(
    form: Tensor,
    solved: Tensor,
    diagonal: Tensor,
    cross: Tensor | None,
    left: Tensor | None,
    right: Tensor | None,
    log_height: Tensor | None,
    log_lengthscale: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The definition of :func:`condition_on_form`."""
    block = formed_from(cross, left, right, log_height, log_lengthscale)
    return block.mT @ solved, _floored(diagonal, (block * (form @ block)).sum(-2))


moments_on_form = operation(plain_moments_on_form)


@compiled(plain_moments_on_form)
def _(form: Tensor, solved: Tensor, diagonal: Tensor, *parts: Any) -> tuple[Tensor, Tensor]:
    cross, left, right, *scales = parts
    if cross is not None:
        return plain_moments_on_form(form, solved, diagonal, *parts)
    pieces = []
    for rows in row_pieces(right, dim=-2):
        blocks = flatten_all(form, solved, left, rows)
        still = rows.new_zeros(len(blocks[0]), rows.shape[-2], solved.shape[-1])
        mean, *_, deviation = torch.ops.deepwishart.gaussian_sample_forward(*blocks, *scales, still)
        pieces.append((mean, deviation))
    means, deviations = zip(*pieces, strict=True)
    mean, variance = torch.cat(means, dim=1), torch.cat(deviations, dim=1).square()
    return mean.reshape(*diagonal.shape, -1), variance.reshape(diagonal.shape)
