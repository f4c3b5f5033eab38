"""File operations that do not come back: the process is killed there, or the disk is full.

    python -m stress.faults PLAN FOLDER fit table.csv ...

runs the command with a plan, see :class:`Plan`. Nothing in the library knows of this.
"""

from __future__ import annotations

import builtins
import errno
import functools
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["Plan", "install", "num_operations"]

# What changes a disk, with the number of arguments that are paths or open files.
OPERATIONS = {
    **{"replace": 2, "rename": 2, "mkdir": 1, "rmdir": 1, "unlink": 1, "remove": 1, "open": 1},
    **{"fsync": 1, "write": 1, "truncate": 1, "ftruncate": 1},
}
_CAN_FAIL = ("open", "fsync", "write", "replace", "rename", "mkdir")
KINDS = ("before", "after", "torn", "full disk", "broken disk")


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

    def to_json(self) -> str:
        """As text for a command."""
        return json.dumps(asdict(self))


def num_operations(count_into: Path) -> int:
    """How many operations there were."""
    return count_into.stat().st_size


def install(plan: Plan, folder: Path) -> None:
    """Watch every operation on files below ``folder`` in this process."""
    watch = _Watch(plan, os.path.realpath(folder))
    for name, number in OPERATIONS.items():
        setattr(os, name, watch.over(name, getattr(os, name), number))
    builtins.open = watch.over_open(builtins.open)  # type: ignore[assignment]


class _Watch:
    def __init__(self, plan: Plan, folder: str) -> None:
        self._plan, self._folder, self._seen = plan, folder, 0
        self._ftruncate, self._fstat = os.ftruncate, os.fstat
        self._log: int | None = None
        if plan.count_into:
            self._log = os.open(plan.count_into, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._log_write = os.write

    def over(self, name: str, function: Callable[..., Any], number: int) -> Callable[..., Any]:
        @functools.wraps(function)
        def watched(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not self._writes(*arguments[1:2]):
                return function(*arguments, **options)
            return self._perform(name, function, arguments[:number], arguments, options)

        return watched

    def over_open(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def watched(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if not set(mode) & set("wax+") or isinstance(file, int):
                return function(file, mode, *rest, **options)
            return self._perform("open", function, (file,), (file, mode, *rest), options)

        return watched

    def _perform(
        self, name: str, function: Callable[..., Any], paths: Any, arguments: Any, options: Any
    ) -> Any:
        if not any(self._is_ours(path) for path in paths):
            return function(*arguments, **options)
        self._seen += 1
        if self._log is not None:
            self._log_write(self._log, b".")
        plan, reached = self._plan, self._seen == self._plan.number
        if plan.kind in ("full disk", "broken disk"):
            if plan.number and self._seen >= plan.number and name in _CAN_FAIL:
                code = errno.ENOSPC if plan.kind == "full disk" else errno.EIO
                raise OSError(code, os.strerror(code), str(paths[0]))
            return function(*arguments, **options)
        if reached and plan.kind == "torn" and isinstance(paths[0], int):
            self._ftruncate(paths[0], self._fstat(paths[0]).st_size // 2)
        if reached and plan.kind != "after":
            _die()
        result = function(*arguments, **options)
        if reached:
            _die()
        return result

    def _is_ours(self, path: Any) -> bool:
        try:
            where = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else path
            return os.path.abspath(os.fspath(where)).startswith(self._folder)
        except (OSError, TypeError, ValueError):
            return False

    @staticmethod
    def _writes(flags: int = 0, *rest: Any) -> bool:
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    install(Plan(**json.loads(sys.argv[1])), Path(sys.argv[2]))
    from deepwishart.cli import app

    app(sys.argv[3:], prog_name="deepwishart")
