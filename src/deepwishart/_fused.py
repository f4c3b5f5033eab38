r"""Hand-written gradients for the operations that carry the cost of training.

Each class states its derivation and its cost. They are reached only through
:mod:`deepwishart.linalg` and agree with ordinary autograd (tests compare the two). On CPUs they
call :mod:`deepwishart._native`, which works sample by sample in a core's own cache; elsewhere, and
where there is no compiler, the PyTorch code below does the same. All inputs have one batch
dimension.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepwishart import _native

_INVERSE_BLOCK = 32


def cholesky_ex(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Lower factors and, per matrix, 0 or the pivot that failed; no gradient."""
    native = _native.operations(matrix) if matrix.ndim == 3 else None
    if native is None:
        lower, info = torch.linalg.cholesky_ex(matrix)
        return lower, info
    return native.cholesky(matrix.contiguous())


def triangular_inverse(lower: Tensor) -> Tensor:
    r"""Inverse of a lower-triangular matrix; in PyTorch by recursive halving, which is mostly
    matrix products.

    .. math:: \begin{pmatrix} A & 0 \\ B & C \end{pmatrix}^{-1} =
              \begin{pmatrix} A^{-1} & 0 \\ -C^{-1} B A^{-1} & C^{-1} \end{pmatrix}
    """
    native = _native.operations(lower) if lower.ndim == 3 else None
    if native is not None:
        return native.triangular_inverse(lower.contiguous())
    size = lower.shape[-1]
    if size <= _INVERSE_BLOCK:
        identity = torch.eye(size, dtype=lower.dtype, device=lower.device)
        return torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False)
    half = size // 2
    first = triangular_inverse(lower[..., :half, :half])
    last = triangular_inverse(lower[..., half:, half:])
    inverse = torch.zeros_like(lower)
    inverse[..., :half, :half] = first
    inverse[..., half:, half:] = last
    inverse[..., half:, :half] = (last @ (lower[..., half:, :half] @ first)).neg_()
    return inverse


def _cholesky_gradient(
    lower: Tensor, inverse: Tensor, grad_lower: Tensor | None, grad_inverse: Tensor | None
) -> Tensor | None:
    r"""Gradient of :math:`K \mapsto (L, L^{-1})`, with :math:`K = L L^\top`.

    Let :math:`X = L^{-1}\, dK\, L^{-\top}` and :math:`\Phi` keep the lower triangle with half the
    diagonal. Then :math:`dL = L\, \Phi(X)` and :math:`dL^{-1} = -\Phi(X)\, L^{-1}`, so

    .. math:: \langle \bar L, dL \rangle + \langle \overline{L^{-1}}, dL^{-1} \rangle
              = \langle L^\top \bar L - \overline{L^{-1}} L^{-\top}, \Phi(X) \rangle
              = \langle M, \Phi(X) \rangle

    and :math:`\bar K = L^{-\top}\, \tfrac12 (\Phi(M) + \Phi(M)^\top)\, L^{-1}`. At most four
    products of size :math:`P^3`. Entries of the incoming gradients above the diagonal never reach
    the lower triangle of :math:`M`.
    """
    if grad_lower is None and grad_inverse is None:
        return None
    native = _native.operations(lower)
    if native is not None:
        gradients = (g if g is None else g.contiguous() for g in (grad_lower, grad_inverse))
        return native.cholesky_backward(lower, inverse, *gradients)
    if grad_lower is None:
        middle = torch.matmul(grad_inverse, inverse.mT).neg_()  # type: ignore[arg-type]
    else:
        middle = torch.matmul(lower.mT, grad_lower)
        if grad_inverse is not None:
            middle -= torch.matmul(grad_inverse, inverse.mT)
    middle.tril_()
    middle.diagonal(dim1=-2, dim2=-1).mul_(0.5)
    symmetric = (middle + middle.mT).mul_(0.5)
    return torch.matmul(inverse.mT, torch.matmul(symmetric, inverse))


class Cholesky(torch.autograd.Function):
    r""":math:`K \mapsto L`, the factor being known; its inverse is formed only for the gradient."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, lower: Tensor) -> Tensor:
        ctx.save_for_backward(lower.contiguous())
        return lower.view_as(lower)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_lower: Tensor) -> tuple[Tensor | None, None]:
        (lower,) = ctx.saved_tensors
        return _cholesky_gradient(lower, triangular_inverse(lower), grad_lower, None), None


class CholeskyWithInverse(torch.autograd.Function):
    r""":math:`K \mapsto (L, L^{-1})`, see :func:`_cholesky_gradient`."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, lower: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        inverse = triangular_inverse(lower)
        ctx.save_for_backward(lower.contiguous(), inverse)
        return lower.view_as(lower), inverse

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_lower: Tensor | None, grad_inverse: Tensor | None
    ) -> tuple[Tensor | None, None]:
        lower, inverse = ctx.saved_tensors
        return _cholesky_gradient(lower, inverse, grad_lower, grad_inverse), None


class Condition(torch.autograd.Function):
    r""":math:`(H, K_{it}, w) \mapsto (m, s)` with :math:`A = H K_{it}`, :math:`m = A^\top w`,
    :math:`s_t = \sum_p A_{pt}^2`.

    With incoming gradients :math:`\bar m, \bar s`:

    .. math:: \bar A = w \bar m^\top + 2 A \operatorname{diag}(\bar s), \quad
              \bar w = A \bar m, \quad \bar H = \bar A K_{it}^\top, \quad
              \bar K_{it} = H^\top \bar A

    One product of size :math:`P^2 N` forward and two backward; everything else is
    :math:`P N D`, folded into those three by the native code, or one pass over a
    :math:`P \times N` block. In double precision the native code computes squares from
    :math:`C = H^\top H` as :math:`k_t^\top C k_t`, which saves one of the two products of the
    gradient: :math:`\bar C = K_{it} \operatorname{diag}(\bar s) K_{it}^\top` and
    :math:`\bar H = 2 H \bar C + w (K_{it} \bar m)^\top`.
    """

    @staticmethod
    def forward(
        ctx: Any, projection: Tensor, cross: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        native = _native.operations(projection, cross, weights)
        if native is not None:
            projection, cross = projection.contiguous(), cross.contiguous()
            weights = weights.contiguous()
            mean, squares, projected = native.condition_forward(projection, cross, weights)
        else:
            projected = torch.bmm(projection, cross)
            mean = torch.bmm(projected.mT, weights)
            squares = torch.mul(projected, projected).sum(-2)
        ctx.save_for_backward(projection, cross, weights, projected)
        return mean, squares

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_mean: Tensor, grad_squares: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        projection, cross, weights, projected = ctx.saved_tensors
        native = _native.operations(cross)
        if native is not None:
            return native.condition_backward(
                projection,
                cross,
                weights,
                projected,
                grad_mean.contiguous(),
                grad_squares.contiguous(),
            )
        grad_weights = torch.bmm(projected, grad_mean)
        grad_projected = projected * (2.0 * grad_squares).unsqueeze(-2)
        grad_projected.baddbmm_(weights, grad_mean.mT)
        grad_projection = torch.bmm(grad_projected, cross.mT)
        grad_cross = torch.bmm(projection.mT, grad_projected)
        return grad_projection, grad_cross, grad_weights


class GaussianCondition(torch.autograd.Function):
    r""":class:`Condition` with :math:`K_{it} = h\, e^{-|x_i - y_t|^2/2\ell^2}` formed on the way;
    native only.

    With :math:`a = x/\ell, b = y/\ell` and :math:`\bar E = \bar K_{it} \odot K_{it}` the gradient
    of the exponent,

    .. math:: \bar a_i = \sum_t \bar E_{it} (b_t - a_i), \quad
              \bar b_t = \sum_i \bar E_{it} (a_i - b_t), \quad
              \overline{\log h} = \sum_{it} \bar E_{it}, \quad
              \overline{\log \ell} = -\sum_i a_i^\top \bar a_i - \sum_t b_t^\top \bar b_t,

    the last because the exponent is homogeneous of degree two in the features.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projection: Tensor,
        left: Tensor,
        right: Tensor,
        log_height: Tensor,
        log_lengthscale: Tensor,
        weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        native = _native.operations(projection)
        projection, left, right, weights = (
            t.contiguous() for t in (projection, left, right, weights)
        )
        ctx.log_lengthscale = log_lengthscale.item()
        mean, squares, cross, projected, a, b = native.gaussian_condition_forward(  # type: ignore[union-attr]
            projection, left, right, log_height.item(), ctx.log_lengthscale, weights
        )
        ctx.save_for_backward(projection, a, b, weights, cross, projected)
        return mean, squares

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_mean: Tensor, grad_squares: Tensor) -> tuple[Tensor | None, ...]:
        native = _native.operations(grad_mean)
        gradients: tuple[Tensor, ...] = native.gaussian_condition_backward(  # type: ignore[union-attr]
            *ctx.saved_tensors,
            ctx.log_lengthscale,
            grad_mean.contiguous(),
            grad_squares.contiguous(),
        )
        return gradients


class GaussianSample(torch.autograd.Function):
    r"""A draw of rows given inducing points, with :math:`K_{it} = h\, e^{-|x_i - y_t|^2/2\ell^2}`
    formed on the way; native only.

    .. math:: F_t = m_t + d_t\, \epsilon_t, \quad m_t = k_t^\top K_{ii}^{-1} F_i, \quad
              d_t^2 = s \max(h - s_t, \text{floor}), \quad s_t = k_t^\top K_{ii}^{-1} k_t

    The gradient goes to :math:`K_{ii}` and :math:`F_i` directly, past any factor. With
    :math:`B = K_{ii}^{-1} K_{it}`, :math:`\bar m = \bar F_t` and
    :math:`\bar s_t = -\tfrac{s}{2 d_t}\, \bar F_t^\top \epsilon_t` (0 where floored),

    .. math:: \bar K_{it} = 2 B \operatorname{diag}(\bar s) + K_{ii}^{-1} F_i\, \bar m^\top, \quad
              \bar F_i = B \bar m, \quad
              \bar K_{ii} = -\tfrac12 \big(\bar K_{it} B^\top
              + \bar F_i\, (K_{ii}^{-1} F_i)^\top\big),

    which is symmetric: one product of size :math:`P^2 N` forward and one backward (two in single
    precision, where :math:`K_{ii}^{-1}` is too inexact and :math:`L^{-1}` is used), and none of
    size :math:`P^3`. Features and height receive the rest as in :class:`GaussianCondition`.
    ``form`` is :math:`K_{ii}^{-1}`, or :math:`L^{-1}` in single precision, and ``solved`` is
    :math:`K_{ii}^{-1} F_i`; both are taken as known functions of ``kernel`` and ``root``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        kernel: Tensor,
        root: Tensor,
        left: Tensor,
        right: Tensor,
        log_height: Tensor,
        log_lengthscale: Tensor,
        form: Tensor,
        solved: Tensor,
        noise: Tensor,
        scale: float,
    ) -> Tensor:
        native = _native.operations(form)
        left, right, solved, noise = (t.contiguous() for t in (left, right, solved, noise))
        scalars = (log_height.item(), log_lengthscale.item())
        sample, cross, product, a, b, deviation = native.gaussian_sample_forward(  # type: ignore[union-attr]
            form, solved, left, right, *scalars, noise, scale
        )
        ctx.scalars = (*scalars, scale)
        ctx.save_for_backward(form, solved, a, b, cross, product, noise, deviation)
        return sample

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        native = _native.operations(grad)
        gradients = native.gaussian_sample_backward(  # type: ignore[union-attr]
            *ctx.saved_tensors, *ctx.scalars, grad.contiguous()
        )
        return *gradients, None, None, None, None


class GaussianSquare(torch.autograd.Function):
    r""":math:`K_{ij} = h\, e^{-|x_i - x_j|^2/2\ell^2} + \epsilon h\, \delta_{ij}`, exactly
    symmetric; native only. The gradient is that of :class:`GaussianCondition` with both arguments
    one, jitter being a part of the diagonal that no feature changes."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, log_height: Tensor, log_lengthscale: Tensor, jitter: float
    ) -> Tensor:
        native = _native.operations(features)
        ctx.log_lengthscale = log_lengthscale.item()
        kernel, scaled = native.gaussian_square_forward(  # type: ignore[union-attr]
            features.contiguous(), log_height.item(), ctx.log_lengthscale, jitter
        )
        ctx.save_for_backward(scaled, kernel)
        return kernel

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_kernel: Tensor) -> tuple[Tensor | None, ...]:
        native = _native.operations(grad_kernel)
        gradients = native.gaussian_square_backward(  # type: ignore[union-attr]
            *ctx.saved_tensors, ctx.log_lengthscale, grad_kernel.contiguous()
        )
        return *gradients, None


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
