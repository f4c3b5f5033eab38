"""What the engines have done elsewhere: one run, in a process or on a node of its own."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwishart.reproduction.sweeps.engines.events import Broken, Finished, Started, Stepped
from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings

if TYPE_CHECKING:
    from deepwishart.reproduction.datasets import Dataset
    from deepwishart.training import ProgressEvent

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_REPORT_SECONDS = 0.5


def carry_out(
    spec: RunSpec,
    settings: Settings,
    dataset: Dataset,
    checkpoint_dir: Path,
    execution: Execution,
    where: str,
    post: Callable[[Started | Stepped], object],
) -> Finished:
    """A run from beginning to end, which posts where it is and now and then how far."""
    from deepwishart.reproduction.sweeps.run import run

    posted = time.monotonic()

    def report(event: ProgressEvent) -> None:
        nonlocal posted
        if time.monotonic() - posted >= _REPORT_SECONDS:
            posted = time.monotonic()
            post(Stepped(spec, event.step + 1, event.total, event.elbo, event.seconds))

    post(Started(spec, where))
    outcome = run(spec, settings, dataset, checkpoint_dir, execution=execution, progress=report)
    return Finished(spec, *outcome)


def work(
    orders: Connection,
    log: Path,
    number: int,
    settings: Settings,
    execution: Execution,
    carry_out: Callable[..., Finished],
) -> None:
    """A process of the local engine: receives runs and their checkpoint directories, sends events.

    When the process that gave the orders is gone, it leaves at once: no second sweep ever meets a
    worker of the first.
    """
    # Ctrl-C reaches every process of the terminal; what to do about it is the conductor's choice.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with open(log, "a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(execution.threads)))
    from deepwishart.reproduction.datasets import load

    read = functools.cache(load)
    where = f"worker {number}, process {os.getpid()}"
    while True:
        spec, folder = orders.recv()
        end: Any
        try:
            dataset = read(spec.dataset)
            end = carry_out(spec, settings, dataset, folder, execution, where, orders.send)
        except Exception as error:
            traceback.print_exc()
            end = Broken(spec, f"{type(error).__name__}: {error}")
        orders.send(end)


def _leave_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(0)
