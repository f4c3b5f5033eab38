"""A worker of the local engine: ``python -m deepwishart.reproduction.sweeps.engines.worker``.

It reads lines of JSON from standard input, first its orders, then one run after the other, and
answers with lines of JSON on standard output. When standard input ends, whoever gave the orders is
gone, and the worker leaves at once: no second sweep ever meets a worker of the first.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, TextIO

__all__ = ["main"]

_REPORT_SECONDS = 0.5


def main() -> None:
    """Carry out runs until told to stop."""
    # Ctrl-C reaches every process of the terminal; what to do about it is the conductor's choice.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is not an answer
    inbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(inbox,), daemon=True).start()
    worker = _Worker(inbox.get(), answers)
    while True:
        worker.carry_out(inbox.get())


def _listen(inbox: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        inbox.put(json.loads(line))
    os._exit(0)


class _Worker:
    def __init__(self, orders: dict[str, Any], answers: TextIO) -> None:
        from deepwishart.reproduction.sweeps.spec import Execution, Settings

        self._settings = Settings(**orders["settings"])
        self._execution = Execution(**orders["execution"])
        self._answers = answers
        self._datasets: dict[str, Any] = {}

    def carry_out(self, order: dict[str, Any]) -> None:
        from deepwishart.reproduction import datasets
        from deepwishart.reproduction.sweeps.engines.events import now_and_then
        from deepwishart.reproduction.sweeps.run import run
        from deepwishart.reproduction.sweeps.spec import RunSpec
        from deepwishart.training import ProgressEvent

        spec = RunSpec.from_dict(order["spec"])
        self._answer(event="started")

        def tell(event: ProgressEvent) -> None:
            self._answer(
                event="stepped",
                step=event.step + 1,
                total=event.total,
                elbo=event.elbo,
                seconds=event.seconds,
            )

        try:
            if spec.dataset not in self._datasets:
                self._datasets[spec.dataset] = datasets.load(spec.dataset)
            outcome = run(
                spec,
                self._settings,
                self._datasets[spec.dataset],
                Path(order["checkpoint_dir"]),
                execution=self._execution,
                progress=now_and_then(_REPORT_SECONDS, tell),
            )
        except Exception as error:
            traceback.print_exc()
            self._answer(event="broken", reason=f"{type(error).__name__}: {error}")
        else:
            self._answer(event="finished", record=outcome.record, curve=outcome.curve)

    def _answer(self, **message: Any) -> None:
        try:
            print(json.dumps(message), file=self._answers, flush=True)
        except BrokenPipeError:
            os._exit(0)


if __name__ == "__main__":
    main()
