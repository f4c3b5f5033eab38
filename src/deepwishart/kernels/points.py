"""What a kernel is applied to: features, or inner products of points that have none."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class GramInducing(NamedTuple):
    """Inducing points known by their Gram matrix only, ``(..., P, P)``.

    >>> import torch
    >>> GramInducing(torch.eye(3)).norms
    tensor([1., 1., 1.])
    """

    gram: Tensor

    @property
    def norms(self) -> Tensor:
        """Squared norms of the points, ``(..., P)``."""
        return self.gram.diagonal(dim1=-2, dim2=-1)


class GramRows(NamedTuple):
    """Rows known by inner products: with the inducing points ``(..., P, N)``, and with themselves
    (``(..., N)``, or ``(..., N, N)`` when rows are sampled jointly).

    >>> import torch
    >>> features, inducing = torch.ones(4, 2), torch.ones(3, 2)
    >>> rows = GramRows(cross=inducing @ features.mT, own=features.square().sum(-1))
    >>> rows.cross.shape, rows.norms.shape
    (torch.Size([3, 4]), torch.Size([4]))
    """

    cross: Tensor
    own: Tensor

    @property
    def norms(self) -> Tensor:
        """Squared norms of the rows, ``(..., N)``."""
        joint = self.own.ndim == self.cross.ndim
        return self.own.diagonal(dim1=-2, dim2=-1) if joint else self.own


Inducing = Tensor | GramInducing
Rows = Tensor | GramRows
Points = Inducing | Rows


def squared_norms(points: Points) -> Tensor:
    """Squared norms ``(..., N)`` of features or of what has a Gram matrix."""
    return points.square().sum(-1) if isinstance(points, Tensor) else points.norms


def inner_products(first: Inducing, second: Rows) -> tuple[Tensor, Tensor, Tensor]:
    r""":math:`g_{xx}` ``(..., P, 1)``, :math:`g_{xy}` ``(..., P, N)`` and :math:`g_{yy}`
    ``(..., 1, N)``."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        inner = first @ second.mT
    elif isinstance(first, GramInducing) and isinstance(second, GramRows):
        inner = second.cross
    else:
        raise TypeError("Inducing points and rows are both features, or both Gram matrices.")
    return squared_norms(first).unsqueeze(-1), inner, squared_norms(second).unsqueeze(-2)


def with_themselves(points: Points) -> tuple[Inducing, Rows]:
    """Points as both arguments of a kernel; rows with a Gram matrix were sampled jointly."""
    if isinstance(points, Tensor):
        return points, points
    gram = points.gram if isinstance(points, GramInducing) else points.own
    return GramInducing(gram), GramRows(gram, gram)
