"""Cases: each is tried in a fork of this process, and whatever it ends in is put down to it."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["Failed", "Outcome", "answers", "seeded"]

# Limits of every process that a case starts, and of a case that waits for ever.
_CPU_SECONDS, _WALL_SECONDS = 60, 3600
_MOST_MEGABYTES = 1000  # more than a case may add to the size of the process


class Failed(Exception):
    """What must not happen has happened; the message says what."""


@dataclass(frozen=True)
class Outcome:
    """A case that ended as it may: ``what`` was tried, how it ``ended``, and what it had, such as
    the number of kills."""

    what: str
    ended: str  # "accepted", "refused" or "recovered"
    counts: dict[str, int] = field(default_factory=dict)


def seeded(kind: str, seed: int, number: int) -> random.Random:
    """Randomness of one case; Python promises the same numbers for the same text.

    >>> seeded("tables", 0, 1).random() == seeded("tables", 0, 1).random()
    True
    """
    return random.Random(f"{kind}/{seed}/{number}")


def answers(
    kind: str, seed: int, root: Path, numbers: Iterable[int], seconds: float
) -> Iterator[tuple[int, dict[str, Any]]]:
    """How each case ended, until the time is over.

    The module of that name has a ``SUITE``. It is made once, with everything imported but no
    threads started, since those would be missing in forks; its ``prepare`` and its cases, which
    ``run`` tries in an empty folder each, may start some.
    """
    end = time.monotonic() + seconds
    suite = import_module(kind if "." in kind else f"stress.{kind}").SUITE(root / "material")
    prepared = _fork(suite.prepare, root / "prepare")
    if "failed" in prepared:
        raise RuntimeError(prepared["failed"])
    for name in prepared["imported"]:  # what is imported late would be by every case anew
        with suppress(ImportError):
            import_module(name)
    for number in numbers:
        folder, rng = root / "case", seeded(kind, seed, number)
        yield number, _fork(lambda folder=folder, rng=rng: suite.run(rng, folder), folder)
        if time.monotonic() > end:
            return


def _fork(work: Callable[[], Outcome | None], folder: Path) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    answer, log = folder.with_suffix(".json"), folder.with_suffix(".log")
    answer.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        _answer(work, answer, log)
    try:
        _, status = os.waitpid(pid, 0)
    finally:
        with suppress(ProcessLookupError):  # what it has started and not ended, too
            os.killpg(pid, signal.SIGKILL)
    if answer.exists():
        return json.loads(answer.read_text())
    code = os.waitstatus_to_exitcode(status)
    how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return {"failed": f"{how}: {log.read_text(errors='replace')[-2000:]}"}


def _answer(work: Callable[[], Outcome | None], answer: Path, log: Path) -> None:
    """In the fork; does not return."""
    os.setpgid(0, 0)
    signal.alarm(_WALL_SECONDS)
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS + 5))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
        os.dup2(file, descriptor)
    found: dict[str, Any] = {}
    try:
        before = _megabytes()
        outcome = work()
        if outcome and (more := _megabytes() - before) > _MOST_MEGABYTES:
            raise Failed(f"{outcome}: it took {more:.0f} MB")
        found = asdict(outcome) if outcome else {"imported": sorted(sys.modules)}
    except Failed as failure:
        found = {"failed": str(failure)}
    except BaseException:
        found = {"failed": traceback.format_exc()}
    finally:
        answer.write_text(json.dumps(found))
        os._exit(0)


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
