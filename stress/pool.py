"""The parent's side: children that try cases, and what becomes of them."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

__all__ = ["Child", "answers", "cpu_seconds"]

_CPU_SECONDS, _WALL_SECONDS = 60.0, 3600.0  # the second for a child that waits for ever


class Child:
    """A process that tries cases of one kind.

    When it dies, the case in its hands gets the blame and another process takes over.
    """

    def __init__(self, kind: str, seed: int, root: Path) -> None:
        self._command = [sys.executable, "-m", "stress.child", kind, str(seed), str(root)]
        self._log = root / "child.log"
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, number: int) -> dict[str, Any]:
        """How a case ended."""
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(f"{number}\n".encode())
        process.stdin.flush()
        line, problem = _read_line(process)
        if line:
            return json.loads(line)
        self.stop()
        code = process.returncode
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return {"failed": f"{problem or how}: {self._last_words()}"}

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with open(self._log, "wb") as log:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        line, _ = _read_line(self._process)
        if line != b"ready\n":
            self.stop()
            raise RuntimeError(f"The child does not start: {self._last_words()}")
        return self._process

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


def answers(
    kind: str, seed: int, root: Path, numbers: Iterable[int], seconds: float
) -> Iterator[tuple[int, dict[str, Any]]]:
    """How each case ended, until the time is over."""
    child, end = Child(kind, seed, root), time.monotonic() + seconds
    try:
        for number in numbers:
            if time.monotonic() > end:
                return
            yield number, child.ask(number)
    finally:
        child.stop()


def _read_line(process: subprocess.Popen[bytes]) -> tuple[bytes, str]:
    """A line, or nothing and why: the process has ended, or is not going to."""
    out: IO[bytes] | None = process.stdout
    assert out is not None
    began, cpu = time.monotonic(), cpu_seconds(process.pid)
    with selectors.DefaultSelector() as selector:
        selector.register(out, selectors.EVENT_READ)
        while not selector.select(timeout=1.0):
            if cpu_seconds(process.pid) - cpu > _CPU_SECONDS:
                return b"", f"more than {_CPU_SECONDS:.0f} s of computing"
            if time.monotonic() - began > _WALL_SECONDS:
                return b"", f"no answer for {_WALL_SECONDS:.0f} s"
    line = out.readline()
    if not line:
        process.wait()
    return line, ""


def cpu_seconds(pid: int) -> float:
    """What a process has computed so far, where the system says so; the machine may be busy."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
