"""What a wheel's native code costs beside code compiled for this very processor.

    python benchmarks/native_builds.py

One process with each library and one without any take turns, a few steps at a time, so that noise
on a shared machine hits all of them. One thread each, since threads that wait disturb the others.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from deepwishart import native
from deepwishart.native import build, prebuilt

STEPS_PER_TURN = 5


def take_turns(library: str, depth: int) -> None:
    """Time a few steps with this library whenever a line arrives."""
    if library != "none":
        prebuilt.find = lambda: Path(library)  # type: ignore[assignment]
        assert native.library() == Path(library)
    from deepwishart.benchmark import alternate, make_step  # loads the library

    torch.set_num_threads(1)
    step = make_step("dwp", depth=depth, dtype=torch.float64)
    for _ in sys.stdin:
        print(alternate([step], STEPS_PER_TURN)[0], flush=True)


def compare(libraries: dict[str, str], depth: int, turns: int) -> dict[str, float]:
    """Median milliseconds of a step with each library."""
    command = [sys.executable, __file__, "--turns-of"]
    workers = {
        name: subprocess.Popen(
            [*command, library, str(depth)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ({"DEEPWISHART_NATIVE": "0"} if library == "none" else {}),
        )
        for name, library in libraries.items()
    }
    times: dict[str, list[float]] = {name: [] for name in libraries}
    for _ in range(turns):
        for name, worker in workers.items():
            assert worker.stdin is not None and worker.stdout is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
            times[name].append(1e3 * float(worker.stdout.readline()))
    for worker in workers.values():
        worker.communicate()
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Steps with native code of several builds.")
    parser.add_argument("--turns-of", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/native_builds.json"))
    options = parser.parse_args()
    if options.turns_of:
        library, depth = options.turns_of
        take_turns(library, int(depth))
        return
    from deepwishart.benchmark import environment

    record: dict[str, object] = {"environment": environment()}
    with tempfile.TemporaryDirectory() as folder:
        carried = prebuilt.compile_all(Path(folder))
        libraries = {"native": str(build.find_or_compile())}
        libraries |= {path.name.rpartition("-")[0]: str(path) for path in carried}
        libraries["none"] = "none"
        for depth in (2, 5):
            found = compare(libraries, depth, options.turns)
            record[f"milliseconds at depth {depth}"] = found
            ratios = (f"{n} {t:.1f} ms ({t / found['native']:.2f})" for n, t in found.items())
            print(f"depth {depth}: " + ", ".join(ratios), flush=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
