"""One process at a time in a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = ".lock"


class InUseError(ValueError):
    """Another process is working in a directory; the message says which."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a directory, or refuse with the id of the process that does.

    The operating system gives a lock back when its process ends, by whatever means, so that what a
    dead process has left is taken over.
    """
    path = folder / LOCK
    descriptor = _acquire(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path) -> int:
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(descriptor, 20).decode(errors="replace") or "unknown"
            os.close(descriptor)
            raise InUseError(
                f"Another process (id {owner}) is working in {path.parent}. Wait for it to end, or "
                "choose another --out."
            ) from None
        # Whoever held the lock may have removed the file in between.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)
