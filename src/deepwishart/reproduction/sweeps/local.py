"""Runs on this machine: processes with a fixed number of threads each."""

from __future__ import annotations

import functools
import os
import pickle
import shutil
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

from joblib.externals import loky  # type: ignore[import-untyped]

from deepwishart._support.files import write_atomically
from deepwishart.reproduction.sweeps import engine
from deepwishart.reproduction.sweeps.engine import Broken, Finished, Lost, News
from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings
from deepwishart.reproduction.sweeps.store import ResultsStore

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PULSE_SECONDS = 0.5


class LocalEngine(engine.Engine):
    """Worker processes on this machine.

    A worker that dies, for whatever reason, is replaced and its run resumed from the last
    checkpoint. When this process dies, its workers leave at once.

    Args:
        settings, execution: what all runs have in common.
        store: where runs keep checkpoints and workers their logs.
        num_workers: number of processes.

    >>> import tempfile
    >>> engine = LocalEngine(Settings(), ResultsStore(tempfile.gettempdir()), num_workers=2)
    >>> list(engine.run([]))
    []
    """

    num_workers = 0

    def __init__(
        self,
        settings: Settings,
        store: ResultsStore,
        *,
        num_workers: int = 1,
        execution: Execution | None = None,
    ) -> None:
        super().__init__(settings, store, execution)
        if num_workers < 1:
            raise ValueError(f"The number of workers must be at least 1, got {num_workers}.")
        self.num_workers = self._most = num_workers
        # One pool for each worker: when a process dies, its pool is of no more use.
        self._idle: list[Any] = []
        self._busy: dict[Future[Any], Any] = {}

    def _open(self) -> _Board:
        self._board = _Board(self._store.log_dir / "news")
        shutil.rmtree(self._board.folder, ignore_errors=True)
        self._board.folder.mkdir(parents=True)
        return self._board

    def _begin(self, spec: RunSpec) -> Future[Finished | Broken]:
        folder = self._store.checkpoint_dir(spec)
        # What to do with a run is an argument as well: a new process has modules of its own.
        task = engine.carry_out, spec, self._settings, folder, self._execution, self._board
        while True:
            pool = self._idle.pop() if self._idle else self._new_pool()
            with suppress(BrokenExecutor):  # its process died while it had nothing to do
                future: Future[Finished | Broken] = pool.submit(_work, *task)
                self._busy[future] = pool
                return future

    def _new_pool(self) -> Any:
        return loky.ProcessPoolExecutor(
            max_workers=1,
            initializer=_become_worker,
            initargs=(os.getpid(), self._store.log_dir),
            env=dict.fromkeys(_THREAD_VARIABLES, str(self._execution.threads)),
        )

    def _end(self, flight: Future[Finished | Broken], spec: RunSpec) -> Finished | Lost | Broken:
        pool = self._busy.pop(flight)
        try:
            end: Finished | Broken = flight.result()
        except BrokenExecutor as error:
            codes = str(error).partition("exit codes of the workers are ")[2].partition("\n")[0]
            return Lost(spec, f"its worker died: {codes or error}")
        except Exception as error:  # its data cannot be read
            end = Broken(spec, f"{type(error).__name__}: {error}")
        self._idle.append(pool)
        return end

    def _close(self) -> None:
        for pool in (*self._idle, *self._busy.values()):
            pool.shutdown(kill_workers=True)
        self._idle.clear()
        self._busy.clear()
        shutil.rmtree(self._board.folder, ignore_errors=True)


@dataclass(frozen=True)
class _Board:
    """A folder that takes news, a file each: no process has to live for that, and half a message
    is none."""

    folder: Path

    def put(self, news: News) -> None:
        write_atomically(self.folder / f"{time.time_ns()}-{os.getpid()}", pickle.dumps(news))

    def get_nowait(self) -> News:
        files = sorted(each for each in self.folder.iterdir() if each.name[0] != ".")
        if not files:
            raise Empty
        news: News = pickle.loads(files[0].read_bytes())
        files[0].unlink()
        return news


def _become_worker(parent: int, logs: Path) -> None:
    # Ctrl-C reaches every process of the terminal; what to do about it is the parent's choice.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def leave_with_parent() -> None:  # no second sweep ever meets a worker of the first
        while os.getppid() == parent:
            time.sleep(_PULSE_SECONDS)
        os._exit(0)

    threading.Thread(target=leave_with_parent, daemon=True).start()
    with open(logs / f"worker-{os.getpid()}.log", "a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)


@functools.cache
def _read(name: str) -> Any:
    from deepwishart.reproduction.datasets import load

    return load(name)


def _work(
    carry_out: Callable[..., Finished | Broken],
    spec: RunSpec,
    settings: Settings,
    folder: Path,
    execution: Execution,
    board: _Board,
) -> Finished | Broken:
    """One run, in a worker."""
    data, where = _read(spec.dataset), f"process {os.getpid()}"
    return carry_out(spec, settings, data, folder, execution, where, board.put)
