"""Runs on this machine: processes with a fixed number of threads each."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from deepwishart.reproduction.sweeps.engines.events import Broken, Event, Finished, Lost, count_loss
from deepwishart.reproduction.sweeps.engines.worker import carry_out, work
from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings
from deepwishart.reproduction.sweeps.store import ResultsStore


class LocalEngine:
    """Worker processes on this machine.

    A worker that dies, for whatever reason, is replaced and its run resumed from the last
    checkpoint. When this process dies, its workers leave at once. They import the program that
    started them: a script keeps its own work under ``if __name__ == "__main__":``.

    Args:
        settings, execution: what all runs have in common.
        store: where runs keep checkpoints and workers their logs.
        num_workers: number of processes.

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
        self._store = store
        self._common = settings, execution or Execution()

    def run(self, specs: Sequence[RunSpec]) -> Generator[Event, None, None]:
        """Carry out all runs; closing the iterator stops those in flight."""
        waiting, losses = deque(specs), Counter[RunSpec]()
        count = min(self.num_workers, len(waiting))
        workers = [_Worker(number, self._store, self._common) for number in range(count)]
        try:
            for worker in workers:
                worker.begin(waiting.popleft())
            while busy := {worker.events: worker for worker in workers if worker.spec}:
                for ready in wait(list(busy)):
                    worker = busy[ready]  # type: ignore[index]
                    event = worker.next_event(losses)
                    if isinstance(event, Lost):
                        waiting.appendleft(event.spec)
                    yield event
                    if worker.spec is None and waiting:
                        worker.begin(waiting.popleft())
        finally:
            for worker in workers:
                worker.stop()


class _Worker:
    """A process that carries out one run after the other, and a new one when it has died."""

    def __init__(self, number: int, store: ResultsStore, common: tuple[Any, ...]) -> None:
        self.spec: RunSpec | None = None
        self.events: Connection
        self._process: Any = None
        self._store = store
        self._log = store.log_dir / f"worker-{number}.log"
        # What to do with a run is an argument as well: a new process has modules of its own.
        self._arguments = self._log, number, *common, carry_out

    def begin(self, spec: RunSpec) -> None:
        if self._process is None:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            context = multiprocessing.get_context("spawn")
            self.events, orders = context.Pipe()
            arguments = (orders, *self._arguments)
            self._process = context.Process(target=work, args=arguments, daemon=True)
            self._process.start()
            orders.close()  # so that the pipe ends with the process
        self.spec = spec
        with suppress(OSError):  # of a process that is dead; the next event will say so
            self.events.send((spec, self._store.checkpoint_dir(spec)))

    def next_event(self, losses: Counter[RunSpec]) -> Event:
        """What the worker sends, or what its death means for its run."""
        assert self.spec is not None
        spec = self.spec
        try:
            event: Event = self.events.recv()
        except (EOFError, OSError):
            event = count_loss(losses, spec, self._obituary())
            self._process = None
        if isinstance(event, Finished | Broken | Lost):
            self.spec = None
        return event

    def _obituary(self) -> str:
        self._process.join()
        self.events.close()
        if (code := self._process.exitcode) < 0:
            return f"its worker was killed by {signal.Signals(-code).name}"
        lines = self._log.read_text("utf-8", errors="replace").strip().splitlines()
        return f"its worker ended with exit code {code}{f': {lines[-1]}' if lines else ''}"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self.events.close()
