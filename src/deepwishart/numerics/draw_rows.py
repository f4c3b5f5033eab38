r"""Draws of rows given inducing points."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from deepwishart import native
from deepwishart.native.fakes import fake, fake_like
from deepwishart.numerics.batches import flatten_all, or_zero, row_pieces
from deepwishart.numerics.condition import condition
from deepwishart.numerics.first_order import Operation, first_order
from deepwishart.numerics.gaussian import Cross, GaussianKernel, formed

__all__ = ["Conditional", "condition_on_form", "draw_rows"]


class Conditional(NamedTuple):
    r"""Sampled inducing points, as rows are conditioned on them.

    Attributes:
        covariance: :math:`K = L L^\top` with jitter, ``(P, P)`` or ``(S, P, P)``.
        inverse: :math:`H = L^{-1}`, likewise.
        root: :math:`F_i`, ``(S, P, D)``.
        weights: :math:`w = H F_i`, ``(S, P, D)``.
        form: :math:`K^{-1}`, or :math:`H` in single precision, as a constant; ``None`` where
            :func:`draw_rows` has no use for it.
        solved: :math:`K^{-1} F_i` as a constant, likewise.
    """

    covariance: Tensor
    inverse: Tensor
    root: Tensor
    weights: Tensor
    form: Tensor | None = None
    solved: Tensor | None = None

    @classmethod
    def of(cls, covariance: Tensor, inverse: Tensor, root: Tensor) -> Conditional:
        r"""From :math:`K`, :math:`L^{-1}` and :math:`F_i`.

        >>> one = torch.ones(1, 1)
        >>> Conditional.of(one, one, 2 * one[None]).weights
        tensor([[[2.]]])
        """
        weights = inverse @ root
        if covariance.ndim != 3 or native.operations(covariance) is None:
            return cls(covariance, inverse, root, weights)
        with torch.no_grad():
            form = inverse.mT @ inverse if inverse.dtype == torch.float64 else inverse.detach()
            solved = inverse.mT @ weights
        return cls(covariance, inverse, root, weights, form.contiguous(), solved)


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
    if given.form is None or given.solved is None or not isinstance(cross, GaussianKernel):
        mean, variance = condition(given.inverse, cross, diagonal, given.weights)
        return torch.addcmul(mean, variance.sqrt().unsqueeze(-1), epsilon)
    epsilon = epsilon.expand(-1, diagonal.shape[-1], -1)
    pieces = []
    for right, noise in zip(
        row_pieces(cross.right, dim=-2), row_pieces(epsilon, dim=-2), strict=True
    ):
        sides = given.covariance, given.root, given.form, given.solved, cross.left, right, noise
        *blocks, noise = flatten_all(*sides)
        drawn, *_ = GaussianDraw.apply(*blocks, cross.log_height, cross.log_lengthscale, noise)
        pieces.append(drawn)
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-2)


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
    if not isinstance(cross, GaussianKernel) or native.operations(form) is None:
        block = formed(cross)
        squares = (block * (form @ block)).sum(-2)
        floor = torch.finfo(diagonal.dtype).eps * diagonal
        return block.mT @ solved, torch.maximum(diagonal - squares, floor)
    pieces = []
    for right in row_pieces(cross.right, dim=-2):
        blocks = flatten_all(form, solved, cross.left, right)
        still = right.new_zeros(len(blocks[0]), right.shape[-2], solved.shape[-1])
        mean, *_, deviation = torch.ops.deepwishart.gaussian_sample_forward(
            *blocks, cross.log_height, cross.log_lengthscale, still
        )
        pieces.append((mean, deviation))
    means, deviations = zip(*pieces, strict=True)
    shape = diagonal.shape
    return (
        torch.cat(means, dim=1).reshape(*shape, -1),
        torch.cat(deviations, dim=1).square().reshape(shape),
    )


class GaussianDraw(Operation):
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
    :class:`~deepwishart.numerics.condition.Condition`. ``form`` and ``solved`` are taken
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


@fake("gaussian_sample_forward")
def _(form: Tensor, solved: Tensor, left: Tensor, right: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    batch, size, width = solved.shape
    rows = right.shape[1]
    shapes = ((batch, rows, width), (batch, size, rows), (batch, size + width, rows))
    drawn, cross, product = (left.new_empty(shape) for shape in shapes)
    kept = torch.empty_like(left), torch.empty_like(right), left.new_empty(batch, rows)
    return drawn, cross, product, *kept


fake_like("gaussian_sample_backward", 0, 1, 2, 3, 8, 9)
