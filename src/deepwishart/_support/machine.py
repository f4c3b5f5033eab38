"""Threads and devices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
