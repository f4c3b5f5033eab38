"""Runs on this machine: processes with a fixed number of threads each."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from joblib.externals import loky  # type: ignore[import-untyped]

from deepwishart.reproduction.datasets import Dataset
from deepwishart.reproduction.sweeps.engine import Engine, Event, carry_out
from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PULSE_SECONDS = 0.5


class LocalEngine(Engine):
    """Worker processes on this machine; what a run has to say goes to a log among its checkpoints.

    A worker that dies, for whatever reason, is replaced and its run resumed from the last
    checkpoint. When this process dies, its workers leave at once.

    >>> import tempfile
    >>> from deepwishart.reproduction.sweeps import ResultsStore, Settings
    >>> engine = LocalEngine(Settings(), ResultsStore(tempfile.gettempdir()), {}, num_workers=2)
    >>> list(engine.run([]))
    []
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # One pool for each worker: when a process dies, its pool is of no more use.
        self._idle: list[Any] = []
        self._busy: dict[Future[Any], Any] = {}

    def _begin(self, spec: RunSpec) -> Future[Event]:
        data, folder = self._datasets[spec.dataset], self._store.checkpoint_dir(spec)
        task = carry_out, spec, self._settings, data, folder, self._execution
        threads = dict.fromkeys(_THREAD_VARIABLES, str(self._execution.threads))
        new: dict[str, Any] = {"max_workers": 1, "env": threads}
        new |= {"initializer": _leave_with, "initargs": (os.getpid(),)}
        while True:
            pool = self._idle.pop() if self._idle else loky.ProcessPoolExecutor(**new)
            with suppress(BrokenExecutor):  # its process died while it had nothing to do
                future: Future[Event] = pool.submit(_work, *task)
                self._busy[future] = pool
                return future

    def _end(self, flight: Future[Event], spec: RunSpec) -> Event:
        pool = self._busy.pop(flight)
        try:
            event = flight.result()
        except BrokenExecutor as error:
            codes = str(error).partition("exit codes of the workers are ")[2].partition("\n")[0]
            return Event(spec, reason=f"its worker died: {codes or error}", again=True)
        self._idle.append(pool)
        return event

    def _close(self) -> None:
        for pool in (*self._idle, *self._busy.values()):
            pool.shutdown(kill_workers=True)
        self._idle.clear()
        self._busy.clear()


def _leave_with(parent: int) -> None:
    """What a worker does first."""
    # Ctrl-C reaches every process of the terminal; what to do about it is the parent's choice.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:  # no second sweep ever meets a worker of the first
        while os.getppid() == parent:
            time.sleep(_PULSE_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _work(
    carry_out: Callable[..., Event],
    spec: RunSpec,
    settings: Settings,
    dataset: Dataset,
    folder: Path,
    execution: Execution,
) -> Event:
    """A run in a worker. What carries it out is an argument, so that tests may use another one."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "log", "a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    return carry_out(spec, settings, dataset, folder, execution)
