"""``python -m stress``: try everything, say what was found."""

from __future__ import annotations

import argparse
import itertools
import math
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from stress.cases import answers

__all__: list[str] = []

KINDS = {
    "kills": "runs of fit and uci run, killed now and then",
    "tables": "damaged tables",
    "models": "damaged model directories",
    "results": "damaged directories of results",
    "calls": "calls with odd arguments",
    "surroundings": "commands in odd surroundings",
    "injections": "texts that are more than a text",
    "concurrent": "scenes of several processes or threads at once",
}


def main() -> int:
    """Run what is asked for; 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m stress", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="stop then; kinds share it equally"
    )
    for kind, what in KINDS.items():
        parser.add_argument(f"--{kind}", type=int, metavar="N", help=f"number of {what}")
    parser.add_argument("--only", metavar="KIND:NUMBER", help="one case, such as tables:17")
    parser.add_argument("--folder", type=Path, help="work here, and leave what was made")
    options = parser.parse_args()
    # A shell that starts this in the background has it ignore Ctrl-C, which ends it early.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["OMP_NUM_THREADS"] = "1"  # forks have one thread
    folder = options.folder or Path(tempfile.mkdtemp(prefix="stress-"))
    began = time.monotonic()
    failures = sum(
        _try(kind, options.seed, folder / kind, numbers, seconds)
        for kind, numbers, seconds in _work(options)
    )
    minutes = (time.monotonic() - began) / 60
    print(f"seed {options.seed}, {minutes:.0f} minutes, Python {platform.python_version()}")
    print("no failures" if not failures else f"{failures} FAILURES")
    if options.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return int(failures > 0)


def _work(options: argparse.Namespace) -> Iterable[tuple[str, Iterable[int], float]]:
    """Kinds of cases, their numbers, and the seconds that they may take."""
    if options.only:
        kind, _, number = options.only.partition(":")
        return [(kind, [int(number)], math.inf)]
    counts = {kind: getattr(options, kind) for kind in KINDS if getattr(options, kind) is not None}
    seconds = options.minutes * 60 / len(counts or KINDS)
    if counts:
        return [(kind, range(count), seconds) for kind, count in counts.items()]
    return [(kind, itertools.count(), seconds) for kind in KINDS]


def _try(kind: str, seed: int, folder: Path, numbers: Iterable[int], seconds: float) -> int:
    """Try the cases of one kind, and print how they ended; the number of failures."""
    ends: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    answer = {}
    with suppress(KeyboardInterrupt):  # what was found so far
        for number, answer in answers(kind, seed, folder, numbers, seconds):
            ends[answer.get("ended", "FAILED")] += 1
            counts.update(answer.get("counts", {}))
            if "failed" in answer:
                case = f"--seed {seed} --only {kind}:{number}"
                print(f"FAILED {case}: {answer['failed']}", flush=True)
            if (done := ends.total()) % 100 == 0:
                print(f"{kind}: {done} done, {ends['FAILED']} failed", file=sys.stderr, flush=True)
    shown = ", ".join(f"{n} {what}" for each in (ends, counts) for what, n in sorted(each.items()))
    print(f"{ends.total()} {KINDS[kind]}: {shown}", flush=True)
    if ends.total() == 1 and "what" in answer:
        print(f"  {answer['what']}")
    return ends["FAILED"]


if __name__ == "__main__":
    sys.exit(main())
