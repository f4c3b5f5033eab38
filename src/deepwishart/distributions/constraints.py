"""Supports of the distributions over Gram matrices, with violations explained in words."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import constraints

from deepwishart.distributions.bartlett import root_of
from deepwishart.numerics import linalg


class PositiveSemidefinite(constraints.Constraint):
    r""":math:`G = G^\top \succeq 0`, :math:`P \times P` for ``dimension`` :math:`P`, of ``rank``
    :math:`m`, by default full, with :math:`G_{:m,:m} \succ 0`.

    The leading block is asked to be positive definite because its elements (and those below it)
    are the free elements on which the singular densities are defined; under them, a matrix without
    this property has probability zero.

    Tolerances scale with the dtype and with the matrix: an element :math:`G_{ij}` is known to
    :math:`\tfrac1{10}\sqrt{\epsilon}\sqrt{G_{ii} G_{jj}}`, and the rank is right if such an error
    explains what is left of :math:`G` beyond rank :math:`m`.

    >>> rank_one = PositiveSemidefinite(2, rank=1)
    >>> rank_one.check(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(True)
    >>> rank_one.explain(torch.eye(2))
    'its rank is above 1'
    """

    is_discrete = False
    event_dim = 2

    def __init__(self, dimension: int, rank: int | None = None) -> None:
        self.dimension = dimension
        self.rank = dimension if rank is None else rank
        super().__init__()

    def __repr__(self) -> str:
        return f"PositiveSemidefinite({self.dimension}, rank={self.rank})"

    def check(self, value: Tensor) -> Tensor:
        """Whether each matrix ``(..., P, P)`` satisfies the constraint; boolean ``(...)``."""
        value = value.detach()
        good = torch.ones(value.shape[:-2], dtype=torch.bool, device=value.device)
        if value.shape[-2:] != (self.dimension, self.dimension):
            return ~good
        identity = torch.eye(self.dimension, dtype=value.dtype, device=value.device)
        for holds in self._tests().values():
            # The identity in place of matrices that failed already: one bad matrix spoils no other.
            good = good & holds(torch.where(good[..., None, None], value, identity))
        return good

    def explain(self, value: Tensor) -> str | None:
        """The first way in which some matrix of ``value`` violates the constraint, or ``None``."""
        if value.shape[-2:] != (self.dimension, self.dimension):
            wanted = f"(..., {self.dimension}, {self.dimension})"
            return f"its shape is {tuple(value.shape)} instead of {wanted}"
        tests = self._tests().items()
        return next((text for text, holds in tests if not holds(value.detach()).all()), None)

    def _tests(self) -> dict[str, Callable[[Tensor], Tensor]]:
        """What to ask, in order, by what to say if the answer is no."""
        full = self.rank == self.dimension
        block = "it" if full else f"its leading {self.rank} x {self.rank} block"
        return {
            "it holds NaN or infinite elements": lambda value: value.isfinite().all(-1).all(-1),
            "it is not symmetric": self._symmetric,
            f"{block} is not positive definite (a rank below {self.rank}, or negative)": (
                self._leading_positive
            ),
            f"its rank is above {self.rank}": self._rank_bounded,
        }

    def _symmetric(self, value: Tensor) -> Tensor:
        return _negligible(value - value.mT, value.diagonal(dim1=-2, dim2=-1).abs().sqrt())

    def _leading_positive(self, value: Tensor) -> Tensor:
        block = value[..., : self.rank, : self.rank]
        return constraints.positive_definite.check(0.5 * (block + block.mT))

    def _rank_bounded(self, value: Tensor) -> Tensor:
        r"""Whether the Schur complement :math:`G_{rr} - W G_{mr}`, :math:`W = G_{rm} G_{mm}^{-1}`,
        is zero up to the effect of an elementwise error :math:`|\delta G_{ij}| \le \tau g_i g_j`,
        :math:`g = \sqrt{\operatorname{diag} G}`, which is at most :math:`\tau t t^\top` with
        :math:`t = g_r + |W| g_m`.
        """
        if self.rank == self.dimension:
            return torch.ones(value.shape[:-2], dtype=torch.bool, device=value.device)
        root = root_of(value, self.rank)
        top, rest = root[..., : self.rank, :], root[..., self.rank :, :]
        residual = value[..., self.rank :, self.rank :] - rest @ rest.mT
        weights = linalg.solve_upper(top, rest.mT).mT.abs()
        size = value.diagonal(dim1=-2, dim2=-1).abs().sqrt()
        reach = size[..., self.rank :] + (weights @ size[..., : self.rank, None]).squeeze(-1)
        return _negligible(residual, reach)


def _negligible(error: Tensor, size: Tensor) -> Tensor:
    r"""Whether :math:`|E_{ij}| \le \tau s_i s_j` everywhere, with the dtype's :math:`\tau`."""
    tolerance = 0.1 * float(torch.finfo(error.dtype).eps) ** 0.5
    return (error.abs() <= tolerance * size.unsqueeze(-1) * size.unsqueeze(-2)).all(-1).all(-1)
