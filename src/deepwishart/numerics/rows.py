r"""Rows given inducing points: their moments, and draws of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart.numerics.gaussian import Cross, GaussianKernel
from deepwishart.numerics.linalg import flatten_all, unflatten
from deepwishart.numerics.operation import compiled, operation, or_zero

__all__ = ["Conditional", "condition", "draw_rows"]


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
        return cls(covariance, inverse, root, weights, *known_form(inverse, weights))

    def widened(self, width: int) -> Conditional:
        """With zero columns, for layers that are wider than there are inducing points."""
        missing = width - self.root.shape[-1]
        if missing == 0:
            return self
        columns = (self.root, self.weights, self.solved)
        root, weights, solved = (torch.nn.functional.pad(t, (0, missing)) for t in columns)
        return self._replace(root=root, weights=weights, solved=solved)


def known_form(inverse: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    r"""What :class:`Conditional` calls ``form`` and ``solved``: :math:`H^\top H`, or :math:`H` in
    single precision, in which that is too inexact, and :math:`H^\top w`."""
    H = inverse.detach()
    form = H.mT @ H if H.dtype == torch.float64 else H
    return form, H.mT @ weights.detach()


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
    known = [given.covariance, given.root, given.form, given.solved]
    mean, deviation = _moments(given.inverse, given.weights, known, cross, diagonal)
    return torch.addcmul(mean, deviation.unsqueeze(-1), epsilon)


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
        diagonal: :math:`k_{tt}`, ``(..., N)``; with a :class:`GaussianKernel` it is the height.
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
    mean, deviation = _moments(projection, weights, [], cross, diagonal)
    return mean, deviation.square()


def _moments(
    projection: Tensor, weights: Tensor, known: list[Tensor], cross: Cross, diagonal: Tensor
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation; ``known`` as in :func:`plain_gaussian_rows`."""
    batch, width = weights.shape[:-2], weights.shape[-1]
    shared = diagonal.ndim == 1 and bool(batch)

    def folded(columns: Tensor) -> Tensor:
        return columns.movedim(-2, 0).flatten(1) if shared else columns

    weights = folded(weights)
    if isinstance(cross, GaussianKernel):
        if known:
            covariance, root, form, solved = known
            known = [covariance, folded(root), form, folded(solved)]
        mean, deviation = gaussian_rows(projection, weights, known, *cross.parts)
    else:
        mean, deviation = _plain_moments(projection, weights, cross, diagonal)
    if shared:
        mean = mean.unflatten(-1, (*batch, width)).movedim(0, -2)
    return mean, deviation


def _plain_moments(
    projection: Tensor, weights: Tensor, cross: Tensor, diagonal: Tensor
) -> tuple[Tensor, Tensor]:
    projected = projection @ cross
    floor = torch.finfo(diagonal.dtype).eps * diagonal.detach()
    variance = torch.maximum(diagonal - projected.square().sum(-2), floor)
    return projected.mT @ weights, variance.sqrt()


def plain_gaussian_rows(
    projection: Tensor,
    weights: Tensor,
    known: Sequence[Tensor],
    left: Tensor,
    right: Tensor,
    log_height: Tensor,
    log_lengthscale: Tensor,
) -> tuple[Tensor, Tensor]:
    r"""Mean and standard deviation of rows whose :class:`GaussianKernel` is not yet formed.

    The gradient goes through ``projection`` and ``weights``. Where ``known`` has the covariance,
    root, form and solved root of a :class:`Conditional`, of which those two are functions, the CPU
    kernel sends it to the covariance and the root directly.
    """
    cross = GaussianKernel(left, right, log_height, log_lengthscale).form()
    diagonal = log_height.exp().expand(right.shape[:-1])
    return _plain_moments(projection, weights, cross, diagonal)


gaussian_rows = operation(plain_gaussian_rows)


@compiled(plain_gaussian_rows)
def _(
    projection: Tensor,
    weights: Tensor,
    known: Sequence[Tensor],
    left: Tensor,
    right: Tensor,
    *scales: Tensor,
) -> tuple[Tensor, Tensor]:
    if known:
        covariance, root, form, solved = known
        first, second, form, solved, x, y = flatten_all(covariance, root, form, solved, left, right)
    else:
        first, second, x, y = flatten_all(projection, weights, left, right)
        form, solved = known_form(first, second)
    found = GaussianRows.apply(first, second, form, solved, x, y, *scales, bool(known))
    mean, deviation = unflatten(found, projection, left, right)
    return mean, deviation


class GaussianRows(torch.autograd.Function):
    r""":math:`(K_{ii}, F_i)` or :math:`(H, w)`, and the features of
    :math:`K_{it} = h\, e^{-|x_i - y_t|^2/2\ell^2}`, to

    .. math:: m_t = k_t^\top s, \qquad d_t = \sqrt{\max(h - k_t^\top C k_t, \text{floor})}

    with :math:`C = K_{ii}^{-1}, s = K_{ii}^{-1} F_i` or :math:`C = H^\top H, s = H^\top w`. For
    :math:`B = C K_{it}` and :math:`\bar q_t = -\tfrac1{2 d_t} \bar d_t`, the gradient of
    :math:`k_t^\top C k_t` (0 where floored),

    .. math:: \bar K_{it} &= 2 B \operatorname{diag}(\bar q) + s\, \bar m^\top, \\
              \bar F_i &= B \bar m, \qquad
              \bar K_{ii} = -\tfrac12 \big(\bar K_{it} B^\top + \bar F_i\, s^\top\big), \\
              \bar s &= K_{it} \bar m, \qquad \bar C = K_{it} \operatorname{diag}(\bar q)
              K_{it}^\top, \qquad \bar H = 2 H \bar C + w \bar s^\top, \qquad
              \bar w = H \bar s.

    :math:`\bar K_{ii}` and :math:`\bar C` are symmetric: one product of size :math:`P^2 N` forward
    and less than one backward, and to :math:`K_{ii}` and :math:`F_i`, which the gradient reaches
    past any factor, none of size :math:`P^3`. In single precision :math:`C` is too inexact; there
    squares of :math:`H K_{it}` are summed, with one product more. Double precision rounds by about
    :math:`\epsilon |C| k_{tt}`, which is what sets whole models of many inducing points apart from
    the plain path (docs, "Performance"). Features and scales receive :math:`\bar K_{it}` as in
    :class:`~deepwishart.numerics.gaussian.GaussianSquare`.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        projection, weights, form, solved, left, right, *scales, known = inputs
        mean, deviation, product, cross, a, b = torch.ops.deepwishart.gaussian_rows_forward(
            known, form, solved, left, right, *scales
        )
        ctx.known = known
        ctx.set_materialize_grads(False)
        kept = (form, solved, a, b, *scales, cross, product, deviation)
        ctx.save_for_backward(projection, weights, mean, *kept)
        return mean, deviation

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        projection, weights, mean, *kept = ctx.saved_tensors
        slopes = or_zero(gradients[0], mean), or_zero(gradients[1], kept[-1])
        first, second, *rest = torch.ops.deepwishart.gaussian_rows_backward(
            ctx.known, *kept, *slopes
        )
        if not ctx.known:
            outer = weights @ second.mT
            double = first.dtype == torch.float64
            first = torch.baddbmm(outer, projection, first, alpha=2) if double else first + outer
            second = projection @ second
        return first, second, None, None, *rest, None
