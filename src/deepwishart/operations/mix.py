r"""A learned matrix mixed into a batch of matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deepwishart import _native
from deepwishart.operations.first_order import first_order, known_signature

__all__ = ["mix"]


def mix(matrices: Tensor, learned: Tensor, weight: Tensor) -> Tensor:
    r""":math:`(1 - q)\, \Sigma_s + q\, M`.

    Args:
        matrices: :math:`\Sigma_s`, ``(..., P, P)``.
        learned: :math:`M`, ``(P, P)``, shared by all.
        weight: :math:`q`, a scalar.

    >>> mix(torch.eye(1).expand(2, 1, 1), torch.zeros(1, 1), torch.tensor(0.25)).flatten()
    tensor([0.7500, 0.7500])
    """
    if matrices.ndim != 3 or _native.operations(matrices) is None:
        return torch.lerp(matrices, learned, weight)
    return Mix.apply(matrices, learned, weight)


class Mix(torch.autograd.Function):
    r"""With :math:`B = \sum_s \bar\Sigma'_s`: :math:`\bar\Sigma_s = (1 - q)\, \bar\Sigma'_s`,
    :math:`\bar M = q B`, :math:`\bar q = \langle B, M \rangle - \sum_s \langle \bar\Sigma'_s,
    \Sigma_s \rangle`. What autograd does for a ``lerp`` takes twice the passes over the batch."""

    @staticmethod
    @known_signature
    def forward(matrices: Tensor, learned: Tensor, weight: Tensor) -> Tensor:
        return torch.lerp(matrices, learned, weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        matrices, learned, weight = ctx.saved_tensors
        to_matrices = grad * (1.0 - weight)
        if not any(ctx.needs_input_grad[1:]):
            return to_matrices, None, None
        total = grad.sum(0)
        inner = torch.dot(grad.reshape(-1), matrices.reshape(-1))
        return to_matrices, total * weight, torch.dot(total.flatten(), learned.flatten()) - inner
