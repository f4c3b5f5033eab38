"""The order in which rows are visited."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["Minibatches"]


class Minibatches:
    r"""Endless minibatches: a new random order every epoch, cut into
    :math:`\lceil N / B \rceil` batches whose sizes differ by at most one.

    Args:
        num_rows: number of rows N.
        batch_size: largest batch B; ``None`` for all rows at once, in their own order.
        seed: seed of the order.

    >>> batches = Minibatches(5, batch_size=2, seed=0)
    >>> [len(batches.next_rows()) for _ in range(4)]
    [2, 2, 1, 2]
    """

    def __init__(self, num_rows: int, batch_size: int | None, seed: int) -> None:
        self.num_rows = num_rows
        self.num_batches = math.ceil(num_rows / min(batch_size or num_rows, num_rows))
        self._generator = torch.Generator().manual_seed(seed)
        self._begin_epoch()

    def next_rows(self) -> Tensor | None:
        """Indices of the rows of the next batch; ``None`` stands for all rows."""
        if self.num_batches == 1:
            return None
        if self.position == self.num_batches:
            self._begin_epoch()
        self.position += 1
        return self._order[self.position - 1]

    def state(self) -> tuple[Tensor, int]:
        """What :meth:`load` needs: the generator as this epoch began, and batches done since."""
        return self._epoch_state, self.position

    def load(self, epoch_state: Tensor, position: int) -> None:
        """Continue where :meth:`state` was taken; after the last batch, a new epoch begins."""
        self._generator.set_state(epoch_state)
        self._begin_epoch()
        self.position = min(position, self.num_batches)

    def _begin_epoch(self) -> None:
        self._epoch_state = self._generator.get_state()
        self.position = 0
        if self.num_batches > 1:
            order = torch.randperm(self.num_rows, generator=self._generator)
            self._order = order.tensor_split(self.num_batches)
