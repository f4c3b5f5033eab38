"""Shapes: one batch dimension for compiled loops, and rows in pieces that stay in cache."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["CACHED_ROWS", "contiguous", "flatten", "flatten_all", "or_zero", "row_pieces"]

CACHED_ROWS = 1024


def flatten(tensor: Tensor) -> Tensor:
    """All batch dimensions as one, which may be of size 1; contiguous."""
    if tensor.ndim == 3:
        return tensor.contiguous()
    return (tensor.unsqueeze(0) if tensor.ndim == 2 else tensor.flatten(0, -3)).contiguous()


def flatten_all(*tensors: Tensor) -> list[Tensor]:
    """The same for matrices whose batch dimensions broadcast."""
    shapes = {t.shape[:-2] for t in tensors}
    if len(shapes) == 1:  # the usual case; to broadcast takes PyTorch as long as a small product
        return [flatten(t) for t in tensors]
    batch = torch.broadcast_shapes(*shapes)
    return [flatten(t.expand(*batch, *t.shape[-2:])) for t in tensors]


def contiguous(tensor: Tensor | None) -> Tensor | None:
    """A tensor that may be missing, as compiled loops want it."""
    return None if tensor is None else tensor.contiguous()


def or_zero(gradient: Tensor | None, like: Tensor) -> Tensor:
    """The same, or zeros of the shape of ``like``. Autograd would make such zeros for every output
    that only the gradient needs, which are the large ones."""
    return torch.zeros_like(like) if gradient is None else gradient.contiguous()


def row_pieces(tensor: Tensor, dim: int) -> Sequence[Tensor]:
    """Many rows in pieces whose blocks stay in cache: cost then grows linearly with rows."""
    if tensor.shape[dim] <= CACHED_ROWS:
        return [tensor]
    pieces: tuple[Tensor, ...] = tensor.split(CACHED_ROWS, dim=dim)
    return pieces
