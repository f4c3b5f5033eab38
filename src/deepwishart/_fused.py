r"""Hand-written gradients for the operations that carry the cost of training.

Each class states its derivation and its cost. They are reached only through
:mod:`deepwishart.linalg` and agree with ordinary autograd (tests compare the two). All of them are
plain PyTorch, so they run on any device and need no compiler.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_INVERSE_BLOCK = 32


def triangular_inverse(lower: Tensor) -> Tensor:
    r"""Inverse of a lower-triangular matrix by recursive halving, mostly matrix products.

    .. math:: \begin{pmatrix} A & 0 \\ B & C \end{pmatrix}^{-1} =
              \begin{pmatrix} A^{-1} & 0 \\ -C^{-1} B A^{-1} & C^{-1} \end{pmatrix}
    """
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
        ctx.save_for_backward(lower)
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
        ctx.save_for_backward(lower, inverse)
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
    :math:`P N D` or one pass over a :math:`P \times N` block.
    """

    @staticmethod
    def forward(
        ctx: Any, projection: Tensor, cross: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        projected = torch.bmm(projection, cross)
        mean = torch.bmm(projected.mT, weights)
        squares = torch.mul(projected, projected).sum(-2)
        ctx.save_for_backward(projection, cross, weights, projected)
        return mean, squares

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_mean: Tensor, grad_squares: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        projection, cross, weights, projected = ctx.saved_tensors
        grad_weights = torch.bmm(projected, grad_mean)
        grad_projected = projected * (2.0 * grad_squares).unsqueeze(-2)
        grad_projected.baddbmm_(weights, grad_mean.mT)
        grad_projection = torch.bmm(grad_projected, cross.mT)
        grad_cross = torch.bmm(projection.mT, grad_projected)
        return grad_projection, grad_cross, grad_weights


def condition(
    projection: Tensor, cross: Tensor, diagonal: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """:class:`Condition` for any batch shape: flattens the batch, then restores it."""
    batch = torch.broadcast_shapes(projection.shape[:-2], cross.shape[:-2], weights.shape[:-2])
    parts = [
        t.expand(*batch, *t.shape[-2:]).flatten(0, -3) if batch else t.unsqueeze(0)
        for t in (projection, cross, weights)
    ]
    mean, squares = Condition.apply(*parts)
    mean = mean.reshape(*batch, *mean.shape[-2:])
    return mean, diagonal - squares.reshape(*batch, squares.shape[-1])
