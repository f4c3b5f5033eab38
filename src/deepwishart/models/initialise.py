"""Starting values from data: inducing points, their targets, linear mean functions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["linear_map", "nearest_rows", "select_inducing", "starting_features"]

_TIE_BREAK = 1e-3


def select_inducing(
    X: Tensor, num_inducing: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Rows of ``X`` to start the inducing inputs from, and their numbers.

    Rows are chosen at random among distinct ones, so there may be fewer than asked for.
    """
    order = torch.randperm(X.shape[0], generator=generator)
    _, group = torch.unique(X[order], dim=0, return_inverse=True)
    first = torch.full((int(group.max()) + 1,), len(order))
    first.scatter_reduce_(0, group, torch.arange(len(order)), "amin")
    chosen = order[first.sort().values[:num_inducing]]
    return X[chosen].clone(), chosen


def nearest_rows(points: Tensor, X: Tensor) -> Tensor:
    """For every point the number of the row of ``X`` that is closest to it."""
    return torch.cdist(points, X).argmin(-1)


def linear_map(inputs: Tensor, width: int) -> Tensor:
    """``(D, width)``: the identity, padded with zeros to a larger width; the leading principal
    directions of ``inputs`` for a smaller one."""
    features = inputs.shape[1]
    if width >= features:
        return torch.eye(features, width, dtype=inputs.dtype, device=inputs.device)
    centred = inputs - inputs.mean(0)
    directions = torch.linalg.svd(centred, full_matrices=True).Vh
    return directions[:width].mT.contiguous()


def starting_features(inputs: Tensor, width: int, generator: torch.Generator) -> Tensor:
    r"""Features ``(P, width)`` for hidden layers to start from: :func:`linear_map` of the inputs,
    with columns of mean zero and mean squared norm of rows about one, as under the prior, plus a
    little noise so that no two columns are tied."""
    centred = inputs.detach() - inputs.detach().mean(0)
    spread = centred.square().mean(0).sqrt()
    # A constant column keeps its zeros; dividing by a rounding error would blow it up.
    usable = spread > 1e-4 * inputs.detach().abs().amax(0)
    standard = torch.where(usable, centred / torch.where(usable, spread, 1.0), 0.0)
    linear = standard @ linear_map(standard, width) / math.sqrt(inputs.shape[1])
    noise = torch.randn(linear.shape, generator=generator, dtype=linear.dtype).to(linear.device)
    return linear + _TIE_BREAK * noise
