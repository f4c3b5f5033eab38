"""The rows of each step: an endless sequence of batches, to be continued where it was left."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

Batch = tuple[Tensor, Tensor]


class Minibatches:
    r"""A new random order every epoch, cut into :math:`\lceil N / B \rceil` batches whose sizes
    differ by at most one.

    The largest has B rows, ``batch_size``; ``None`` is for all at once, in their own order.
    """

    def __init__(self, X: Tensor, y: Tensor, batch_size: int | None, seed: int) -> None:
        self.X, self.y = X, y
        self.num_batches = math.ceil(len(X) / min(batch_size or len(X), len(X)))
        self._generator = torch.Generator().manual_seed(seed)
        self._begin_epoch()

    def next(self) -> Batch:
        """Inputs and targets of the next step."""
        if self.num_batches == 1:
            return self.X, self.y
        if self.position == self.num_batches:
            self._begin_epoch()
        self.position += 1
        rows = self._order[self.position - 1]
        return self.X[rows], self.y[rows]

    def state(self) -> tuple[Tensor, int]:
        """The generator as this epoch began, and batches done since."""
        return self._epoch_state, self.position

    def load(self, state: Tensor, position: int) -> None:
        """After the last batch, a new epoch begins."""
        self._generator.set_state(state)
        self._begin_epoch()
        self.position = min(position, self.num_batches)

    def _begin_epoch(self) -> None:
        self._epoch_state = self._generator.get_state()
        self.position = 0
        if self.num_batches > 1:
            order = torch.randperm(len(self.X), generator=self._generator)
            self._order = order.tensor_split(self.num_batches)


class GivenBatches:
    """Pairs of inputs and targets of somebody else's making, such as a data loader's; over again
    when they end. What cannot be started again is an error then."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self.num_batches = 0  # not known
        self.position = 0
        self._batches = self._over_and_over(batches)

    def _over_and_over(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        found = None
        while True:
            for found in batches:
                yield found
            if found is None:
                raise ValueError("The batches have come to an end and cannot be started again.")
            found = None

    def next(self) -> Batch:
        self.position += 1
        return next(self._batches)

    def state(self) -> tuple[Tensor, int]:
        return torch.empty(0, dtype=torch.uint8), self.position

    def load(self, state: Tensor, position: int) -> None:
        """Skip what was seen already."""
        while self.position < position:
            self.next()


Batches = Minibatches | GivenBatches
