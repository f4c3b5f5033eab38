"""What this processor can do."""

from __future__ import annotations

import functools
from pathlib import Path

__all__ = ["flags"]


@functools.cache
def flags() -> frozenset[str]:
    """The kernel's names of the processor's features; none where it does not list them.

    >>> all(isinstance(name, str) for name in flags())
    True
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    line = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(line.partition(":")[2].split())
