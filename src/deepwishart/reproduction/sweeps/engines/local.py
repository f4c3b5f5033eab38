"""Runs on this machine: processes with a fixed number of threads each."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import deepwishart
from deepwishart.reproduction.sweeps.engines.events import (
    Broken,
    Event,
    Finished,
    Losses,
    Lost,
    Started,
    Stepped,
)
from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings
from deepwishart.reproduction.sweeps.store import ResultsStore

__all__ = ["LocalEngine"]

_WORKER = "deepwishart.reproduction.sweeps.engines.worker"
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_GRACE_SECONDS = 5.0


class LocalEngine:
    """Worker processes on this machine.

    A worker that dies, for whatever reason, is replaced and its run resumed from the last
    checkpoint. When this process dies, its workers leave at once.

    Args:
        settings: what all runs have in common.
        store: where runs keep checkpoints and workers their logs.
        num_workers: number of processes.
        execution: threads of each process, device, and how often to save.

    >>> import tempfile
    >>> engine = LocalEngine(Settings(), ResultsStore(tempfile.gettempdir()), num_workers=2)
    >>> list(engine.run([]))
    []
    """

    def __init__(
        self,
        settings: Settings,
        store: ResultsStore,
        *,
        num_workers: int = 1,
        execution: Execution | None = None,
    ) -> None:
        if num_workers < 1:
            raise ValueError(f"The number of workers must be at least 1, got {num_workers}.")
        self.num_workers = num_workers
        self._settings = settings
        self._store = store
        self._execution = execution or Execution()

    def run(self, specs: Sequence[RunSpec]) -> Generator[Event, None, None]:
        """Carry out all runs; closing the iterator stops those in flight."""
        waiting, losses = deque(specs), Losses()
        inbox: queue.SimpleQueue[tuple[_Worker, dict[str, Any] | None]] = queue.SimpleQueue()
        workers: list[_Worker] = []
        try:
            for number in range(min(self.num_workers, len(waiting))):
                workers.append(self._start(number, inbox))
                workers[-1].begin(waiting.popleft(), self._store)
            while any(worker.spec for worker in workers):
                worker, message = inbox.get()
                event = worker.understand(message) if message else worker.end(losses)
                if event is not None:
                    yield event
                if isinstance(event, Lost):
                    waiting.appendleft(event.spec)
                if message is None:
                    workers.remove(worker)
                if worker.spec is None and waiting:
                    if message is None:
                        worker = self._start(worker.number, inbox)
                        workers.append(worker)
                    worker.begin(waiting.popleft(), self._store)
        finally:
            for worker in workers:
                worker.stop()

    def _start(
        self, number: int, inbox: queue.SimpleQueue[tuple[_Worker, dict[str, Any] | None]]
    ) -> _Worker:
        orders = {"settings": asdict(self._settings), "execution": asdict(self._execution)}
        return _Worker(number, orders, self._store.log_dir, inbox)


class _Worker:
    """A worker process as its conductor sees it."""

    def __init__(
        self,
        number: int,
        orders: dict[str, Any],
        log_dir: Path,
        inbox: queue.SimpleQueue[tuple[_Worker, dict[str, Any] | None]],
    ) -> None:
        self.number = number
        self.spec: RunSpec | None = None
        log_dir.mkdir(parents=True, exist_ok=True)
        self._log = log_dir / f"worker-{number}.log"
        with open(self._log, "a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", _WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(orders["execution"]["threads"]),
                encoding="utf-8",
            )
        self._send(orders)
        threading.Thread(
            target=_listen, args=(self, self._process.stdout, inbox), daemon=True
        ).start()

    def begin(self, spec: RunSpec, store: ResultsStore) -> None:
        """Give the worker its next run."""
        self.spec = spec
        self._send({"spec": spec.to_dict(), "checkpoint_dir": str(store.checkpoint_dir(spec))})

    def understand(self, message: dict[str, Any]) -> Event:
        """The event that a message of the worker announces."""
        spec, kind = self.spec, message.pop("event")
        assert spec is not None
        if kind == "started":
            return Started(spec, f"worker {self.number}, process {self._process.pid}")
        if kind == "stepped":
            return Stepped(spec, **message)
        self.spec = None
        return Finished(spec, **message) if kind == "finished" else Broken(spec, **message)

    def end(self, losses: Losses) -> Lost | Broken | None:
        """What the worker's death means for its run, if it had one."""
        code = self._process.wait()
        self._close()
        spec, self.spec = self.spec, None
        if spec is None:
            return None
        if code < 0:
            return losses.event(spec, f"its worker was killed by {signal.Signals(-code).name}")
        lines = self._log.read_text("utf-8", errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return losses.event(spec, f"its worker ended with exit code {code}{last}")

    def stop(self) -> None:
        """End the worker, whatever it is doing."""
        self._close()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # its death is on its way through the inbox
            print(json.dumps(message), file=self._process.stdin, flush=True)

    def _close(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()


def _listen(
    worker: _Worker,
    answers: IO[str],
    inbox: queue.SimpleQueue[tuple[_Worker, dict[str, Any] | None]],
) -> None:
    """Pass on what a worker says, and finally that it has nothing more to say."""
    with answers:
        for line in answers:
            # A worker killed in the middle of a line leaves half of one.
            if line.endswith("\n"):
                inbox.put((worker, json.loads(line)))
    inbox.put((worker, None))


def _environment(threads: int) -> dict[str, str]:
    """This process's environment, with as many threads and this very package."""
    source = str(Path(deepwishart.__file__).resolve().parents[1])
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        **dict.fromkeys(_THREAD_VARIABLES, str(threads)),
        "PYTHONPATH": os.pathsep.join(paths),
    }
