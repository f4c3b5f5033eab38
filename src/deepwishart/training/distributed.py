r"""Data-parallel training: every process takes some rows of each batch.

The bound's data term is a function of sums over rows (:mod:`deepwishart.layers.output`). Each
process adds up its own rows, the sums are exchanged, and every process then knows the whole bound
and its slope in the sums, which it sends back through its own rows. What the bound owes to the
inducing points alone is the leader's to differentiate. All processes draw the same
noise for inducing points, and rows have the noise that they would have in one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from deepwishart import bound
from deepwishart.layers.output import Summary
from deepwishart.model import DeepKernelProcess, ProcessSample
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.random import Randomness

NUMERICAL_ERRORS = (CholeskyError, torch.linalg.LinAlgError)


@dataclass(frozen=True)
class Parallel:
    """The processes that train together; a single one by default."""

    rank: int = 0  # number of this process
    world: int = 1  # number of processes
    group: Any = None  # the process group, None for the default one

    @classmethod
    def detect(cls, process_group: Any = None) -> Parallel:
        """The given process group, else the default one if it has been initialised."""
        if not (dist.is_available() and dist.is_initialized()):
            if process_group is not None:
                raise ValueError(
                    "process_group was given, but torch.distributed is not initialised; "
                    "call torch.distributed.init_process_group() first."
                )
            return cls()
        rank, world = dist.get_rank(process_group), dist.get_world_size(process_group)
        if rank < 0:
            raise ValueError("This process does not belong to process_group; do not call train.")
        return cls(rank, world, process_group)

    @property
    def leads(self) -> bool:
        """Whether this process writes checkpoints and shows progress."""
        return self.rank == 0

    def rows(self, num_rows: int) -> slice:
        """This process's rows of a batch: an equal share, give or take one row."""
        share, rest = divmod(num_rows, self.world)
        start = self.rank * share + min(self.rank, rest)
        return slice(start, start + share + (self.rank < rest))

    def elbo(
        self,
        model: DeepKernelProcess,
        X: Tensor,
        y: Tensor,
        *,
        num_data: int,
        num_samples: int,
        kl_weight: float,
        generator: torch.Generator,
    ) -> Tensor:
        """The batch's ELBO (:func:`deepwishart.bound.elbo`) on the leader and zero elsewhere,
        with gradients that add up to the whole's."""
        X, y = model.check_data(X, y)
        bound.check_num_data(model, len(X), num_data)
        random = model.randomness(num_samples, generator)
        sample, own = self._own_sums(model, X, y, random)
        sums = [part.detach().clone() for part in own]
        for total in sums:
            self.sum_(total)
            total.requires_grad_()
        data_term = sample.output.data_term(tuple(sums), model.likelihood)
        whole = (data_term / len(X) + kl_weight * sample.log_ratio / num_data).mean()
        slopes = torch.autograd.grad(whole, sums, retain_graph=True, allow_unused=True)
        pairs = [(a, b) for a, b in zip(slopes, own, strict=True) if a is not None]
        carried = torch.stack([(slope * part).sum() for slope, part in pairs]).sum()
        carried = carried - carried.detach()
        return whole + carried if self.leads else carried

    def _own_sums(
        self, model: DeepKernelProcess, X: Tensor, y: Tensor, random: Randomness
    ) -> tuple[ProcessSample, Summary]:
        """Sums over this process's rows. A failure anywhere is one everywhere: nobody may wait for
        sums that will not come."""
        mine = self.rows(len(X))
        own = mine.stop - mine.start
        # A rank without rows follows a row of another's, and adds nothing.
        part = mine if own else slice(0, 1)
        error: Exception | None = None
        try:
            sample = model.sample(random)
            rows = random.rows().part(part.start, len(X))
            summary = sample.summarise(X[part], y[part], rows)
        except NUMERICAL_ERRORS as found:
            error = found
        if self.largest(int(error is not None), model.device):
            raise error or CholeskyError("a matrix could not be factorised in another process.")
        return sample, summary if own else tuple(0.0 * part for part in summary)

    def sum_(self, values: Tensor) -> None:
        """Replace ``values`` by their sum over processes."""
        if self.world > 1:
            dist.all_reduce(values, group=self.group)

    def largest(self, number: int, device: torch.device) -> int:
        """The largest of the processes' numbers."""
        if self.world == 1:
            return number
        value = torch.tensor(number, device=device)
        dist.all_reduce(value, op=dist.ReduceOp.MAX, group=self.group)
        return int(value)

    def from_leader(self, content: bytes, device: torch.device) -> bytes:
        """The leader's ``content``, on every process."""
        source = 0 if self.group is None else dist.get_global_rank(self.group, 0)
        shared = [content]
        dist.broadcast_object_list(shared, source, group=self.group, device=device)
        return shared[0]
