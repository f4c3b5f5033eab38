r"""Pseudo-observations of a Gaussian."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from deepwishart.numerics import linalg
from deepwishart.numerics.operation import (
    compiled,
    contiguous,
    first_order,
    operation,
    shapes,
    shapes_like,
)

__all__ = ["Observations", "observe"]


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


def observe(kernel: Tensor, root: Tensor, targets: Tensor, *, what: str) -> Observations:
    r"""Condition :math:`\mathcal N(0, K)` on observing :math:`M^\top v` with unit noise:
    :math:`B = I + M^\top K M = L_B L_B^\top`. Since :math:`B \ge I`, :math:`K` needs no jitter as
    long as its entries are of a reasonable size.

    Args:
        kernel: :math:`K`, ``(..., P, P)``.
        root: :math:`M`, ``(P, P)``.
        targets: :math:`v`, ``(P, D)``.
        what: how error messages call :math:`B`.

    >>> one = torch.ones(1, 1)
    >>> observed = observe(3.0 * one, one, 4.0 * one, what="B")  # B = 4
    >>> observed.whitened.item(), observed.trace.item(), observed.solved.item()
    (2.0, 0.25, 1.0)
    """
    *factors, numbers = linalg.with_jitter(
        lambda matrix: pseudo_observations(matrix, root, targets), kernel, what=what
    )
    return Observations(*factors, *numbers.unbind(-1))


def plain_pseudo_observations(
    kernel: Tensor, root: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    r"""What :class:`Observations` lists, its three numbers as one tensor ``(..., 3)``, and 0 or the
    pivot of :math:`B` that failed ``(...)``."""
    identity = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
    inner = root.mT @ kernel @ root + identity
    lower, inverse, failed = linalg.plain_cholesky_inverse(inner)
    projection = inverse @ root.mT
    whitened = projection @ targets
    squares = inverse.square(), (inverse.mT @ whitened).square()
    numbers = [linalg.log_det(lower), *(each.sum((-2, -1)) for each in squares)]
    return inverse, projection, whitened, torch.stack(numbers, dim=-1), failed


pseudo_observations = operation(plain_pseudo_observations)


@compiled(plain_pseudo_observations)
def _(
    kernel: Tensor, root: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    inverse, projection, whitened, numbers, _, failed = Observe.apply(
        linalg.flatten(kernel), root.contiguous(), targets.contiguous()
    )
    batch = kernel.shape[:-2]
    return (
        inverse.reshape(kernel.shape),
        projection.reshape(kernel.shape),
        whitened.reshape(*kernel.shape[:-1], -1),
        numbers.reshape(*batch, 3),
        failed.reshape(batch),
    )


class Observe(torch.autograd.Function):
    r""":math:`(K, M, v) \mapsto (H, Y, w, (\log|B|, \operatorname{tr} B^{-1}, |H^\top w|^2))`.

    .. math:: B = I + M^\top K M = L L^\top, \quad H = L^{-1}, \quad Y = H M^\top, \quad w = Y v

    With :math:`n` the gradients of the three numbers, which are :math:`2 \sum_j \log L_{jj}`,
    :math:`|H|_F^2` and :math:`|H^\top w|^2`, and :math:`\Phi` as in
    :class:`~deepwishart.numerics.linalg.CholeskyInverse`:

    .. math:: \bar w' &= \bar w + 2 n_3 H H^\top w, \qquad \bar Y' = \bar Y + \bar w' v^\top, \qquad
              \bar v = Y^\top \bar w' \\
              \bar H' &= \bar H + 2 n_2 H + 2 n_3 w w^\top H + \bar Y' M, \qquad
              M_L = 2 n_1 I - \bar H' H^\top \\
              \bar B &= H^\top \tfrac12 (\Phi(M_L) + \Phi(M_L)^\top) H, \qquad
              \bar K = M \bar B M^\top, \qquad \bar M = \bar Y'^\top H + 2 K M \bar B.

    Also returns :math:`K M` for the gradient and which samples did not factorise, whose results
    are not valid.
    """

    @staticmethod
    def forward(kernel: Tensor, root: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        return torch.ops.deepwishart.observe_forward(kernel, root, targets)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        inverse, projection, whitened, _, products, failed = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(products, failed)
        ctx.save_for_backward(*inputs[1:], inverse, projection, whitened, products)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, ...]:
        incoming = map(contiguous, gradients[:4])
        return torch.ops.deepwishart.observe_backward(*ctx.saved_tensors, *incoming)


@shapes("observe_forward")
def _(kernel: Tensor, root: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
    batch, size, _ = kernel.shape
    squares = (torch.empty_like(kernel) for _ in range(2))
    whitened, numbers = kernel.new_empty(batch, size, targets.shape[1]), kernel.new_empty(batch, 3)
    failed = kernel.new_empty(batch, dtype=torch.int32)
    return *squares, whitened, numbers, torch.empty_like(kernel), failed


shapes_like("observe_backward", 2, 0, 1)
