"""A layer at its inducing points."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart import _native

__all__ = ["DrawRoot", "Observe"]


class DrawRoot(torch.autograd.Function):
    r"""A layer at its inducing points, :math:`(K, V, q, A) \mapsto (H, F, w, d)`; native only.

    .. math:: K = L L^\top, \quad H = L^{-1}, \quad R R^\top = (1-q)\, s K + q\, V V^\top,
              \quad F = R A, \quad w = H F, \quad
              d = \nu \log\frac{|R|}{|\sqrt s L|} - \frac{|w|^2}{2s}

    Gradients: with :math:`C = K^{-1}`, :math:`d` has the slope :math:`-\tfrac1s C F` in :math:`F`
    and :math:`\tfrac1{2s} C F F^\top C - \tfrac\nu2 C` in :math:`K`, :math:`F` being fixed. Along
    the root, :math:`\bar F' = \bar F + H^\top \bar w - \tfrac{\bar d}s C F` and
    :math:`\bar A = R^\top \bar F'`. With :math:`\Phi` as in :func:`_cholesky_gradient`, :math:`R`
    receives :math:`\bar F' A^\top` and :math:`\nu \bar d` over its diagonal, and :math:`L` what
    reaches :math:`H` directly or through :math:`w`, so that

    .. math:: M_R = R^\top \bar R = \bar A A^\top + \nu \bar d\, I, \qquad
              M_L = -\bar H H^\top - \bar w w^\top

    are whitened outer products in place of :math:`P^3` products; :math:`M_L` is zero in training,
    where rows bypass :math:`H` and :math:`w` (:class:`GaussianSample`). Then, with
    :math:`\bar K_M = L^{-\top} \tfrac12 (\Phi(M) + \Phi(M)^\top) L^{-1}`, and :math:`R` for
    :math:`L` in the case of :math:`M_R`,

    .. math:: \bar K = \bar d\, \partial_K d + \bar K_{M_L} + (1-q) s\, \bar K_{M_R}, \quad
              \bar V = 2 q\, \bar K_{M_R} V, \quad
              \bar q = \langle \bar K_{M_R}, V V^\top - s K \rangle.

    Columns of ``factor`` may hold several samples, in ``groups``, each with its own :math:`d`.
    Also returns, without gradients, ``form`` and ``solved`` for :class:`GaussianSample` and the
    number of samples that did not factorise, whose results are not valid.
    """

    @staticmethod
    def forward(
        ctx: Any,
        kernel: Tensor,
        scale_root: Tensor,
        mixing: Tensor,
        factor: Tensor,
        scale: float,
        degrees: float,
        groups: int,
    ) -> tuple[Tensor | int, ...]:
        native = _native.operations(kernel)
        ctx.set_materialize_grads(False)
        kernel, factor = kernel.contiguous(), factor.contiguous()
        ctx.numbers = (mixing.item(), scale, degrees)
        inverse, mixed, root, weights, form, solved, learned, density, failures = (
            native.draw_root_forward(  # type: ignore[union-attr]
                kernel, scale_root, ctx.numbers[0], factor, scale, degrees, groups
            )
        )
        ctx.save_for_backward(
            kernel, scale_root, factor, inverse, mixed, weights, form, solved, learned
        )
        form = form.detach()  # may be inverse itself
        ctx.mark_non_differentiable(form, solved)
        return inverse, root, weights, density, form, solved, failures

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        kernel, scale_root, factor, *kept = ctx.saved_tensors
        q, scale, degrees = ctx.numbers
        incoming = [g if g is None else g.contiguous() for g in gradients[:4]]
        native = _native.operations(kernel)
        to_inputs = native.draw_root_backward(  # type: ignore[union-attr]
            kernel, scale_root, q, factor, scale, degrees, *kept, *incoming
        )
        return *to_inputs, None, None, None


class Observe(torch.autograd.Function):
    r"""Pseudo-observations of a Gaussian,
    :math:`(K, M, v) \mapsto (H, Y, w, (\log|B|, \operatorname{tr} B^{-1}, |H^\top w|^2))`; native
    only.

    .. math:: B = I + s\, M^\top K M = L L^\top, \quad H = L^{-1}, \quad Y = H M^\top, \quad w = Y v

    With :math:`n` the gradients of the three numbers, which are :math:`2 \sum_j \log L_{jj}`,
    :math:`|H|_F^2` and :math:`|H^\top w|^2`:

    .. math:: \bar w' &= \bar w + 2 n_3 H H^\top w, \qquad \bar Y' = \bar Y + \bar w' v^\top, \qquad
              \bar v = Y^\top \bar w' \\
              \bar H' &= \bar H + 2 n_2 H + 2 n_3 w w^\top H + \bar Y' M, \qquad
              M_L = 2 n_1 I - \bar H' H^\top \\
              \bar B &= H^\top \tfrac12 (\Phi(M_L) + \Phi(M_L)^\top) H, \qquad
              \bar K = s M \bar B M^\top, \qquad \bar M = \bar Y'^\top H + 2 s K M \bar B.

    Also returns the number of samples that did not factorise, whose results are not valid.
    """

    @staticmethod
    def forward(
        ctx: Any, kernel: Tensor, root: Tensor, targets: Tensor, scale: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
        native = _native.operations(kernel)
        ctx.set_materialize_grads(False)
        kernel, root, targets = kernel.contiguous(), root.contiguous(), targets.contiguous()
        inverse, projection, whitened, numbers, products, failures = native.observe_forward(  # type: ignore[union-attr]
            kernel, root, targets, scale
        )
        ctx.scale = scale
        ctx.save_for_backward(root, targets, inverse, projection, whitened, products)
        return inverse, projection, whitened, numbers, failures

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        root, targets, *kept = ctx.saved_tensors
        incoming = [g if g is None else g.contiguous() for g in gradients[:4]]
        native = _native.operations(root)
        to_inputs = native.observe_backward(  # type: ignore[union-attr]
            root, targets, ctx.scale, *kept, *incoming
        )
        return *to_inputs, None
