"""Starting values from data: inducing points, their targets, linear mean functions."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "Selection",
    "linear_map",
    "nearest_rows",
    "select_inducing",
    "starting_features",
]

_TIE_BREAK = 1e-3


class Selection(NamedTuple):
    """Rows to start inducing points from: the points ``(P, num_features)``, the number of a row for
    each, and for every row the number of its group of identical rows."""

    points: Tensor
    rows: Tensor
    groups: Tensor

    def averages(self, values: Tensor) -> Tensor:
        """Values of rows ``(N, D)`` at the points: means over identical rows, so that one of
        several contradicting targets does not speak for all of them."""
        sums = values.new_zeros(int(self.groups.max()) + 1, values.shape[1])
        sums.index_add_(0, self.groups, values)
        counts = torch.bincount(self.groups).to(values).unsqueeze(-1)
        return (sums / counts)[self.groups[self.rows]]


def select_inducing(X: Tensor, num_inducing: int, generator: torch.Generator) -> Selection:
    """Rows of ``X`` to start the inducing inputs from.

    Rows are chosen at random among distinct ones, so there may be fewer than asked for. Greedy
    conditional variance and k-means were no better after training (docs, "Defaults").
    """
    order = torch.randperm(X.shape[0], generator=generator)
    _, group = torch.unique(X[order], dim=0, return_inverse=True)
    first = torch.full((int(group.max()) + 1,), len(order))
    first.scatter_reduce_(0, group, torch.arange(len(order)), "amin")
    chosen = order[first.sort().values[:num_inducing]]
    return Selection(X[chosen].clone(), chosen, torch.empty_like(group).scatter_(0, order, group))


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


def starting_features(
    inputs: Tensor, width: int, generator: torch.Generator, rows: Tensor | None = None
) -> Tensor:
    r"""Features ``(P, width)`` for hidden layers to start from: :func:`linear_map` of the inputs,
    with columns of mean zero and mean squared norm of rows about one, as under the prior, plus a
    little noise so that no two columns are tied.

    Mean and spread of a column are those of all ``rows``, where given. Where outliers hold a
    column's variance and none is among the points, the points' own spread would say next to
    nothing, and to divide by it would make a slope that no start recovers from.
    """
    inputs = inputs.detach()
    rows = inputs if rows is None else rows.detach()
    centre = rows.mean(0)
    spread = (rows - centre).square().mean(0).sqrt()
    # A constant column keeps its zeros; dividing by a rounding error would blow it up.
    usable = spread > 1e-4 * rows.abs().amax(0)
    standard = torch.where(usable, (inputs - centre) / torch.where(usable, spread, 1.0), 0.0)
    linear = standard @ linear_map(standard, width) / math.sqrt(inputs.shape[1])
    noise = torch.randn(linear.shape, generator=generator, dtype=linear.dtype).to(linear.device)
    return linear + _TIE_BREAK * noise
