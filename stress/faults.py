"""File operations that do not come back: the process is killed there, or the disk is full.

Nothing in the library knows of this.
"""

from __future__ import annotations

import builtins
import errno
import functools
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["KINDS", "Plan", "install"]

# What changes a disk, with the number of arguments that are paths or open files.
_OPERATIONS = {
    **{"replace": 2, "rename": 2, "mkdir": 1, "rmdir": 1, "unlink": 1, "remove": 1, "open": 1},
    **{"fsync": 1, "write": 1, "truncate": 1, "ftruncate": 1},
}
_CAN_FAIL = ("open", "fsync", "write", "replace", "rename", "mkdir")
_ERRORS = {"full disk": errno.ENOSPC, "broken disk": errno.EIO}
KINDS = ("before", "after", "torn", *_ERRORS)


@dataclass(frozen=True)
class Plan:
    """What happens at which operation.

    Args:
        number: of the operation, from 1; 0 only counts them.
        kind: ``"before"`` or ``"after"`` it, the process is killed; ``"torn"``: killed before an
            operation on an open file, half of which reaches the disk; ``"full disk"``, ``"broken
            disk"``: that operation and all later ones fail, until the process ends.
        count_into: a file that gets one byte for each operation.
    """

    number: int
    kind: str = "before"
    count_into: str | None = None


def install(plan: Plan, folder: Path) -> None:
    """Watch every operation on files below ``folder`` in this process."""
    watch = _Watch(plan, os.path.realpath(folder))
    for name, number in _OPERATIONS.items():
        setattr(os, name, watch.over(name, getattr(os, name), number))
    builtins.open = watch.over("open", builtins.open, 1)  # type: ignore[assignment]


class _Watch:
    def __init__(self, plan: Plan, folder: str) -> None:
        self._plan, self._folder, self._seen = plan, folder, 0
        self._write, self._ftruncate = os.write, os.ftruncate  # as they are without a watch
        log = plan.count_into
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if log else None

    def over(self, name: str, function: Callable[..., Any], number: int) -> Callable[..., Any]:
        @functools.wraps(function)
        def watched(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not _writes(*arguments, **options):
                return function(*arguments, **options)
            if not any(self._is_ours(path) for path in arguments[:number]):
                return function(*arguments, **options)
            reached = self._next(name, arguments[0])
            result = function(*arguments, **options)
            if reached:
                _die()
            return result

        return watched

    def _next(self, name: str, path: Any) -> bool:
        """Count an operation, let happen what has to before it, and say whether it is the last."""
        self._seen += 1
        if self._log is not None:
            self._write(self._log, b".")
        number, kind = self._plan.number, self._plan.kind
        if kind in _ERRORS:
            if 0 < number <= self._seen and name in _CAN_FAIL:
                raise OSError(_ERRORS[kind], os.strerror(_ERRORS[kind]), str(path))
        elif self._seen == number:
            if kind == "torn" and isinstance(path, int):
                self._ftruncate(path, os.fstat(path).st_size // 2)
            if kind != "after":
                _die()
            return True
        return False

    def _is_ours(self, path: Any) -> bool:
        try:
            where = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else path
            return os.path.abspath(os.fspath(where)).startswith(self._folder)
        except (OSError, TypeError, ValueError):
            return False


def _writes(file: Any, how: int | str = 0, *rest: Any, **options: Any) -> bool:
    """Whether a file is opened for writing, by the flags of ``os.open`` or the mode of ``open``."""
    how = how or options.get("mode", 0)
    if isinstance(how, str):
        return bool(set(how) & set("wax+")) and not isinstance(file, int)
    return bool(how & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
