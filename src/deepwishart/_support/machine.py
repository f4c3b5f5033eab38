"""Threads, devices, Ctrl-C, and processes that compute together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let PyTorch compute with so many threads, and put its setting back afterwards.

    >>> with threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def resolve_device(device: str | torch.device) -> torch.device:
    """The device to compute on: a GPU for ``"auto"`` where PyTorch has one, else the CPU."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, TypeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            "device must be 'auto', 'cpu' or a device that PyTorch has here, such as 'cuda:0'; "
            f"got {device!r} ({reason})."
        ) from None
    return found


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """While active, Ctrl-C only adds to the given list, so that a step can be finished first.

    A second Ctrl-C raises :class:`KeyboardInterrupt` at once, as usual. Nothing changes outside
    the main thread, or where the program handles or ignores the signal itself.
    """
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if noted:
            signal.default_int_handler(number, frame)
        noted.append(number)

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ours = usual and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(frozen=True)
class Processes:
    """Processes of a ``torch.distributed`` group that compute one function of sums over rows, each
    with a share of these; a single one by default.

    Each adds up its own rows and gets the sums of all (:meth:`sum`). All then have the same value,
    and the mean over processes of the gradients that they find is its gradient (:meth:`mean_`).

    >>> Processes(rank=1, world=2).rows(5)
    slice(3, 5, None)
    """

    rank: int = 0  # number of this process
    world: int = 1  # number of processes
    group: Any = None  # the process group, None for the default one
    device: torch.device | None = None  # of what is exchanged

    @classmethod
    def detect(cls, process_group: Any, device: torch.device) -> Processes:
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
        return cls(rank, world, process_group, device)

    @property
    def leads(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def rows(self, num_rows: int) -> slice:
        """This process's share of so many rows, give or take one. With fewer rows than processes
        some have none to add: they follow the first, which shows them the shapes of the sums."""
        share, rest = divmod(num_rows, self.world)
        start = self.rank * share + min(self.rank, rest)
        stop = start + share + (self.rank < rest)
        return slice(start, stop) if start < stop else slice(0, 1)

    def together(self, errors: tuple[type[Exception], ...]) -> AbstractContextManager[None]:
        """An error that one process meets inside is one for all of them: nobody may wait for sums
        that will not come."""
        return nullcontext() if self.world == 1 else self._together(errors)

    @contextmanager
    def _together(self, errors: tuple[type[Exception], ...]) -> Iterator[None]:
        own: Exception | None = None
        try:
            yield
        except errors as error:
            own = error
        if self.largest(int(own is not None)):
            raise own or errors[0]("Another process has failed.")

    def sum(self, parts: tuple[Tensor, ...], num_rows: int) -> tuple[Tensor, ...]:
        """Sums over all processes of what each has added up over its rows, of ``num_rows``."""
        if self.world == 1:
            return parts
        own = parts if self.rank < num_rows else tuple(torch.zeros_like(part) for part in parts)
        return tuple(_Sum.apply(part, self) for part in own)

    def mean_(self, values: Tensor) -> None:
        """Replace ``values`` by their mean over processes."""
        if self.world > 1:
            dist.all_reduce(values, group=self.group)
            values.div_(self.world)

    def largest(self, number: int) -> int:
        """The largest of the processes' numbers."""
        if self.world == 1:
            return number
        value = torch.tensor(number, device=self.device)
        dist.all_reduce(value, op=dist.ReduceOp.MAX, group=self.group)
        return int(value)

    def from_leader(self, content: bytes) -> bytes:
        """The leader's ``content``, on every process."""
        source = 0 if self.group is None else dist.get_global_rank(self.group, 0)
        shared = [content]
        dist.broadcast_object_list(shared, source, group=self.group, device=self.device)
        return shared[0]


class _Sum(torch.autograd.Function):
    """The sum over processes. All find the same slope in it, so that of one process's part is their
    number times as much, once gradients are averaged."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, processes: Processes) -> Tensor:
        ctx.world = processes.world
        total = part.detach().clone()
        dist.all_reduce(total, group=processes.group)
        return total

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        return ctx.world * slope, None
