r"""What flows between layers: row-wise features, or the kernel blocks built from them.

Points come in two groups, inducing points (i) and data points (t, "test and train"), so that every
:math:`(P + N) \times (P + N)` matrix splits into :math:`ii`, :math:`it` and :math:`tt` blocks. The
:math:`tt` block is usually needed only on its diagonal, and is stored so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor


class Features(NamedTuple):
    r"""Feature vectors, one per row, scaled so that the Gram matrix is :math:`G = F F^T`.

    The factor :math:`1/\nu` of the paper's Gram matrix (section 2.4) is inside the features.

    Args:
        inducing: features of the inducing points, (..., P, D).
        data: features of the data points, (..., N, D).

    Example:
        >>> import torch
        >>> Features(torch.zeros(5, 2), torch.zeros(7, 2)).data.shape
        torch.Size([7, 2])
    """

    inducing: Tensor
    data: Tensor


@dataclass(frozen=True, eq=False)
class Blocks:
    r"""The blocks :math:`M_{ii}, M_{it}, M_{tt}` of a Gram or kernel matrix over both groups.

    Args:
        ii: inducing points with themselves, (..., P, P).
        it: inducing points with data points, (..., P, N).
        tt: data points with themselves: the diagonal (..., N), or (..., N, N) if ``joint``.
        joint: whether ``tt`` holds the full matrix.

    Example:
        >>> import torch
        >>> blocks = Blocks(torch.eye(2), torch.zeros(2, 3), torch.eye(3), joint=True)
        >>> blocks.diagonal
        tensor([1., 1., 1.])
    """

    ii: Tensor
    it: Tensor
    tt: Tensor
    joint: bool = False

    def __post_init__(self) -> None:
        """Check that the three blocks can belong to one matrix."""
        if self.ii.dim() < 2 or self.it.dim() < 2 or self.tt.dim() < 1 + self.joint:
            raise ValueError(
                "Blocks needs ii (..., P, P), it (..., P, N) and tt (..., N), or (..., N, N) with "
                f"joint=True; got {self._shapes()}."
            )
        num_inducing, num_data = self.it.shape[-2:]
        if self.ii.shape[-2:] != (num_inducing, num_inducing):
            raise ValueError(f"ii must be P x P for an it of P x N; got {self._shapes()}.")
        expected = (num_data, num_data) if self.joint else (num_data,)
        if self.tt.shape[-len(expected) :] != expected:
            raise ValueError(
                f"tt must end in {expected} when joint={self.joint}; got {self._shapes()}."
            )

    def _shapes(self) -> str:
        return f"ii {tuple(self.ii.shape)}, it {tuple(self.it.shape)}, tt {tuple(self.tt.shape)}"

    @property
    def diagonal(self) -> Tensor:
        """The diagonal of the ``tt`` block, (..., N), however the block is stored."""
        return self.tt.diagonal(dim1=-2, dim2=-1) if self.joint else self.tt

    @classmethod
    def from_features(cls, features: Features, joint: bool = False) -> Blocks:
        r"""The Gram blocks :math:`F_i F_i^T`, :math:`F_i F_t^T` and :math:`F_t F_t^T`.

        Args:
            features: inducing (..., P, D) and data (..., N, D).
            joint: whether to form the whole of :math:`F_t F_t^T` rather than its diagonal.

        Example:
            >>> import torch
            >>> features = Features(torch.ones(2, 3), torch.ones(4, 3))
            >>> Blocks.from_features(features).tt
            tensor([3., 3., 3., 3.])
        """
        inducing, data = features
        tt = data @ data.mT if joint else data.square().sum(-1)
        return cls(ii=inducing @ inducing.mT, it=inducing @ data.mT, tt=tt, joint=joint)
