"""The child process: one case after the other, as the parent asks for them.

It reads numbers of cases from standard input, and answers each with a line of JSON on what used to
be standard output.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import traceback
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from stress.cases import Failed, Suite, seeded

__all__: list[str] = []

_MOST_MEGABYTES = 700  # more than a case may add to the largest size of the process


def main() -> None:
    """Serve until the parent hangs up."""
    kind, seed, root = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    suite = import_module(kind if "." in kind else f"stress.{kind}").SUITE(root / "material")
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        answer = _answer(suite, kind, seed, int(line), root / f"case-{os.getpid()}")
        print(json.dumps(answer), file=answers, flush=True)


def _answer(suite: Suite, kind: str, seed: int, number: int, folder: Path) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    before = _megabytes()
    try:
        outcome = suite.run(seeded(kind, seed, number), folder)
        if (more := _megabytes() - before) > _MOST_MEGABYTES:
            raise Failed(f"{outcome.what}: it took {more:.0f} MB")
    except Failed as failure:
        return {"failed": str(failure)}
    except Exception:
        return {"failed": traceback.format_exc()}
    return asdict(outcome)


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
