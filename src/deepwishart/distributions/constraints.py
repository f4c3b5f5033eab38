"""The support of the distributions over Gram matrices."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import constraints

from deepwishart.numerics import linalg


class PositiveSemidefinite(constraints.Constraint):
    r""":math:`G = G^\top \succeq 0`, :math:`P \times P` for ``dimension`` :math:`P`, of ``rank``
    :math:`m`, with :math:`G_{:m,:m} \succ 0`.

    The leading block is asked to be positive definite because its elements (and those below it)
    are the free elements on which the singular densities are defined; under them, a matrix without
    this property has probability zero.

    Tolerances scale with the dtype and with the matrix: an element :math:`G_{ij}` is known to
    :math:`\tau \sqrt{G_{ii} G_{jj}}`, :math:`\tau = \tfrac1{10}\sqrt{\epsilon}`, and the rank is
    right if such errors explain what is left of :math:`G` beyond rank :math:`m`: with
    :math:`g = \sqrt{\operatorname{diag} G}` and :math:`W = G_{rm} G_{mm}^{-1}`, the Schur
    complement :math:`G_{rr} - W G_{mr}` is then at most :math:`\tau t t^\top`,
    :math:`t = g_r + |W| g_m`.

    >>> PositiveSemidefinite(2, rank=1).check(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(True)
    """

    is_discrete = False
    event_dim = 2

    def __init__(self, dimension: int, rank: int) -> None:
        self.dimension, self.rank = dimension, rank
        super().__init__()

    def __repr__(self) -> str:
        return f"PositiveSemidefinite({self.dimension}, rank={self.rank})"

    def check(self, value: Tensor) -> Tensor:
        """Whether each matrix ``(..., P, P)`` satisfies the constraint; boolean ``(...)``."""
        value, m = value.detach(), self.rank
        size = value.diagonal(dim1=-2, dim2=-1).abs().sqrt()
        _, inverse, failed = linalg.plain_cholesky_inverse(value[..., :m, :m])
        good = (failed == 0) & _negligible(value - value.mT, size)
        if m == self.dimension:
            return good
        rest = value[..., m:, :m] @ inverse.mT
        reach = size[..., m:] + ((rest @ inverse).abs() @ size[..., :m, None]).squeeze(-1)
        return good & _negligible(value[..., m:, m:] - rest @ rest.mT, reach)


def _negligible(error: Tensor, size: Tensor) -> Tensor:
    r"""Whether :math:`|E_{ij}| \le \tau s_i s_j` everywhere; never where there is a NaN."""
    tolerance = 0.1 * float(torch.finfo(error.dtype).eps) ** 0.5
    return (error.abs() <= tolerance * size.unsqueeze(-1) * size.unsqueeze(-2)).all(-1).all(-1)
