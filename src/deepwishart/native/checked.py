"""Library files whose names end in their checksums.

Loading a truncated library kills the process, so it has to be noticed before. With the checksum in
its name a library is whole or not there, also when two processes put it there at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from deepwishart._support.files import sync_directory

__all__ = ["intact", "keep"]


def keep(fresh: Path, folder: Path, name: str) -> Path:
    """Move a library into a folder of the same file system, safe from a loss of power.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder) / "fresh"
    ...     _ = written.write_bytes(b"code")
    ...     kept = keep(written, Path(folder), "loops")
    ...     list(intact(Path(folder), "loops")) == [kept]
    True
    """
    fresh.chmod(0o644)
    with open(fresh, "rb") as file:
        os.fsync(file.fileno())
    kept = folder / f"{name}-{_checksum(fresh)}.so"
    os.replace(fresh, kept)
    sync_directory(folder)
    return kept


def intact(folder: Path, name: str) -> Iterator[Path]:
    """The libraries of this name that are what they were when they were kept."""
    for path in sorted(folder.glob(f"{name}-*.so")):
        if path.name == f"{name}-{_checksum(path)}.so":
            yield path


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
