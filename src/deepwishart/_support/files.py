"""Files that are whole or not there, even if the power fails, and what they are called."""

from __future__ import annotations

import os
from pathlib import Path

PARTIAL = ".partial"


def write_atomically(path: Path, content: bytes | str) -> Path:
    """Give ``path`` this content, or leave it as it was."""
    partial = path.with_name(f".{path.name}{PARTIAL}")
    data = content.encode() if isinstance(content, str) else content
    partial.unlink(missing_ok=True)  # what a killed process left, or a link that leads elsewhere
    try:
        with open(partial, "xb") as file:
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


def printable(text: str, most: int = 2000) -> str:
    r"""Text from files and names as a terminal may see it: no control characters, and no endless
    lines.

    >>> printable("a\tb\x1b[2J"), printable("x" * 9, 3)
    ('a b\\x1b[2J', 'xxx...')
    """
    line = " ".join(text.split())
    line = line if len(line) <= most else f"{line[:most]}..."
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in line)
