"""Commands in processes forked from this one, which has imported everything and started no thread.

A start then takes milliseconds instead of seconds; on disk there is no difference.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

from stress.cases import Failed
from stress.command import Ended
from stress.faults import Plan, install
from stress.pool import cpu_seconds

__all__ = ["Run", "import_everything", "install_checkpoints"]

CHECKPOINT_EVERY = 40  # steps, instead of 500: a run of a second has several
_CPU_SECONDS, _WALL_SECONDS = 120.0, 3600.0


def import_everything() -> None:
    """What commands import when they run; a fork has it all."""
    import deepwishart.cli.directory
    import deepwishart.cli.fitting
    import deepwishart.reproduction.sweeps  # noqa: F401


def install_checkpoints() -> None:
    """More checkpoints than by default."""
    from deepwishart.training import CheckpointStore

    CheckpointStore.__init__.__defaults__ = (CHECKPOINT_EVERY, 2)  # type: ignore[attr-defined]


class Run:
    """A command in a process of its own.

    Args:
        arguments: of ``deepwishart``.
        log: file for what it prints.
        plan: of what is to happen to it, to files below ``watched``.
        watched: a folder.
        installed: start Python anew, as the installed command does, instead of forking.
    """

    def __init__(
        self,
        arguments: list[object],
        log: Path,
        plan: Plan | None = None,
        watched: Path | None = None,
        installed: bool = False,
    ) -> None:
        self._words, self._log = [str(each) for each in arguments], log
        self._status: int | None = None
        if installed:
            self.pid = self._start(plan, watched)
            return
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(plan, watched)

    def _start(self, plan: Plan | None, watched: Path | None) -> int:
        module = (
            ["deepwishart"] if plan is None else ["stress.faults", plan.to_json(), str(watched)]
        )
        with open(self._log, "wb") as log:
            command = [sys.executable, "-m", *module, *self._words]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        process.returncode = 0  # it is waited for here, not by the object
        return process.pid

    def _become(self, plan: Plan | None, watched: Path | None) -> None:
        """The command itself, in the fork; does not return."""
        code = -1
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            install_checkpoints()
            if plan is not None and watched is not None:
                install(plan, watched)
            from deepwishart.cli import app

            app(self._words, prog_name="deepwishart")
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code & 0xFF)

    def over(self) -> bool:
        """Whether it has ended."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def kill(self, number: int = signal.SIGKILL) -> bool:
        """Send a signal; ``False`` if it was too late."""
        if self.over():
            return False
        os.kill(self.pid, number)
        return True

    def wait(self) -> Ended:
        """How it ended; killed if it does not."""
        began = time.monotonic()
        while not self.over():
            if time.monotonic() - began > _WALL_SECONDS or cpu_seconds(self.pid) > _CPU_SECONDS:
                self.kill()
                os.waitpid(self.pid, 0)
                raise Failed(f"deepwishart {' '.join(self._words)} does not end")
            time.sleep(0.005)
        code = os.waitstatus_to_exitcode(self._status or 0)
        return Ended(code, "", self._log.read_text(errors="replace"))

    def workers(self) -> list[int]:
        """Processes of the kind that ``uci run`` starts."""
        try:
            found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            words = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in found}
        except OSError:
            return []
        return [int(pid) for pid, line in words.items() if "spawn_main" in line]
