"""Which code made a result."""

from __future__ import annotations

import functools
import hashlib
import platform
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

import deepwishart

_SOURCES = {".py", ".h", ".cpp"}


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the packages that matter, a digest of this package's sources and, where they are
    in a git repository, its commit.

    >>> versions()["deepwishart"] == deepwishart.__version__, len(versions()["sources"])
    (True, 12)
    """
    found = {module.__name__: module.__version__ for module in (deepwishart, torch, np)}
    found["python"] = platform.python_version()
    folder = Path(deepwishart.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in _SOURCES):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    found["sources"] = digest.hexdigest()[:12]
    with suppress(OSError, subprocess.CalledProcessError):
        # Of a file of ours: an installation may be within somebody else's repository.
        _git(folder, "ls-files", "--error-unmatch", "__init__.py")
        found["commit"] = _git(folder, "rev-parse", "--short=12", "HEAD")
    return found


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
