r"""What rows say about a Gaussian process, from their sums."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart.numerics import linalg
from deepwishart.numerics.first_order import Operation, first_order

__all__ = ["explained"]


def explained(gram: Tensor, products: Tensor, noise: Tensor, *, what: str) -> Tensor:
    r"""How much the rows say about the outputs: with :math:`B = I + T/\sigma^2` and
    :math:`z = c/\sigma^2`,

    .. math:: -\tfrac12 \log|B| + \tfrac12 z^\top B^{-1} z.

    Args:
        gram: :math:`T = A A^\top`, ``(..., P, P)``.
        products: :math:`c = A y`, ``(..., P, D)``.
        noise: :math:`\sigma^2` of each column, ``(D,)``.
        what: how error messages call :math:`B`.

    Returns:
        ``(..., D)``.

    >>> one = torch.ones(1, 1)
    >>> explained(3.0 * one, 4.0 * one, torch.ones(1), what="B")  # log 4 and 16 / 4, halved
    tensor([1.3069])
    """
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    inner = gram.detach().unsqueeze(-3) / noise.detach()[:, None, None] + eye
    lower, inverse = linalg.factor(inner, what=what)
    return Explained.apply(gram, products, noise, lower, inverse)


class Explained(Operation):
    r"""With :math:`a = B^{-1} z`, the slope is :math:`-\tfrac12 (B^{-1} + a a^\top)` in :math:`B`
    and :math:`a` in :math:`z`; the factor :math:`L_B` and its inverse are known functions of
    :math:`B`. One product of size :math:`P^3`."""

    @staticmethod
    def forward(
        gram: Tensor, products: Tensor, noise: Tensor, lower: Tensor, inverse: Tensor
    ) -> Tensor:
        whitened = inverse @ (products / noise).mT.unsqueeze(-1)
        return 0.5 * (whitened.square().sum((-2, -1)) - linalg.log_det(lower))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        gram, products, noise, _, inverse = inputs
        ctx.save_for_backward(gram, products, noise, inverse)

    @staticmethod
    @first_order
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gram, products, noise, inverse = ctx.saved_tensors
        z = (products / noise).mT.unsqueeze(-1)
        a = inverse.mT @ (inverse @ z)  # (..., D, P, 1)
        to_inner = inverse.mT @ inverse
        to_inner = (to_inner + a @ a.mT) * (-0.5 * gradient / noise)[..., None, None]
        to_z = (gradient[..., None] / noise[:, None] * a.squeeze(-1)).mT
        along = (to_inner * gram.unsqueeze(-3)).sum((-2, -1)) + (to_z * products).sum(-2)
        to_noise = -(along / noise).reshape(-1, len(noise)).sum(0)
        return to_inner.sum(-3), to_z, to_noise, None, None
