r"""Data-parallel training: every process takes some rows of each batch.

With n rows in a batch, :math:`n_r` of them on rank r, the ELBO per data point is

.. math:: \text{ELBO} = \sum_r \frac{n_r}{n}\, \text{ELBO}_r,

where :math:`\text{ELBO}_r` is estimated from the rank's rows. Each rank's estimate has the KL term
of the inducing points, and since :math:`\sum_r n_r = n` that term counts once. All ranks draw the
same noise for inducing points, and the noise of the whole batch for rows, of which each keeps its
own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from deepwishart import objectives
from deepwishart.models.deep_kernel_process import DeepKernelProcess
from deepwishart.noise import Noise

__all__ = ["Parallel"]


@dataclass(frozen=True)
class Parallel:
    """The processes that train together; a single one by default.

    Args:
        rank: number of this process.
        world: number of processes.
        group: the process group, ``None`` for the default one.

    >>> Parallel(rank=1, world=3).rows(10)
    slice(4, 7, None)
    """

    rank: int = 0
    world: int = 1
    group: Any = None

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
        """This process's part of the batch's ELBO; the parts add up to the whole."""
        if self.world == 1:
            return objectives.elbo(
                model,
                X,
                y,
                num_data=num_data,
                num_samples=num_samples,
                kl_weight=kl_weight,
                generator=generator,
            )
        num_rows, mine = X.shape[0], self.rows(X.shape[0])
        own = mine.stop - mine.start
        # A rank without rows follows a row of another's to draw the same noise, and adds nothing.
        part = mine if own else slice(0, 1)
        noise = Noise(num_samples, generator, model.dtype, model.device, False, part, num_rows)
        with torch.set_grad_enabled(own > 0):
            value = objectives.elbo(
                model, X[part], y[part], num_data=num_data, kl_weight=kl_weight, noise=noise
            )
        return own / num_rows * value if own else value.new_zeros(())

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
        size = torch.tensor(len(content), device=device)
        dist.broadcast(size, source, group=self.group)
        data = torch.zeros(int(size), dtype=torch.uint8)
        if self.leads:
            data = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        data = data.to(device)
        dist.broadcast(data, source, group=self.group)
        return data.cpu().numpy().tobytes()
