"""One process at a time in a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"


class InUseError(ValueError):
    """Another process is working in a directory; the message says which."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a directory and hold its lock, or refuse with the id of the process that does.

    The operating system gives a lock back when its process ends, by whatever means, so that what a
    dead process has left is taken over.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    try:
        lock = FileLock(path, timeout=0).acquire()
    except Timeout:
        owner = ""
        with suppress(OSError):  # it has ended in the meantime
            owner = path.read_text(errors="replace")
        raise InUseError(
            f"Another process (id {owner[:20] or 'unknown'}) is working in {folder}. Wait for it "
            "to end, or choose another directory."
        ) from None
    with lock:
        path.write_text(str(os.getpid()))
        try:
            yield
        finally:
            with suppress(OSError):  # not every system removes a file that is open
                path.unlink()
