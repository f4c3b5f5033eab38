"""Files that are whole or not there, even if the power fails."""

from __future__ import annotations

import os
from pathlib import Path

PARTIAL = ".partial"


def write_atomically(path: Path, content: bytes | str) -> Path:
    """Give ``path`` this content, or leave it as it was."""
    partial = path.with_name(f".{path.name}{PARTIAL}")
    data = content.encode() if isinstance(content, str) else content
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    sync_directory(path.parent)
    return path


def sync_directory(folder: Path) -> None:
    """Have a directory's entries reach the disk, where the platform can do that."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
