r"""A learned matrix mixed into a batch of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor

__all__ = ["Mixed", "formed"]


@dataclass(frozen=True)
class Mixed:
    r"""The matrices :math:`(1 - q)\, \Sigma_s + q\, V V^\top`, not yet formed.

    An operation that factorises them forms them in cache, one by one.

    Args:
        matrices: :math:`\Sigma_s`, ``(..., P, P)``.
        root: :math:`V`, ``(P, P)``, shared by all.
        weight: :math:`q`, a scalar.

    >>> Mixed(torch.eye(1).expand(2, 1, 1), torch.zeros(1, 1), torch.tensor(0.25)).form().flatten()
    tensor([0.7500, 0.7500])
    """

    matrices: Tensor
    root: Tensor
    weight: Tensor

    def form(self) -> Tensor:
        """The matrices, ``(..., P, P)``."""
        return torch.lerp(self.matrices, self.root @ self.root.mT, self.weight)


@overload
def formed(matrices: Tensor | Mixed) -> Tensor: ...


@overload
def formed(matrices: Tensor | Mixed | None) -> Tensor | None: ...


def formed(matrices: Tensor | Mixed | None) -> Tensor | None:
    """The matrices themselves, where there are any."""
    return matrices.form() if isinstance(matrices, Mixed) else matrices
