"""Which gives more runs per hour on all cores: processes with one thread each, or threads?

    python benchmarks/workers.py

As many processes as cores, one thread each, against one process with as many threads as cores. The
two take turns; every process takes steps of boston's shape until the clock is up, all at the same
time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from deepwishart.benchmark import environment, make_step

STEPS_PER_RUN = 20_000  # of the paper's protocol


def count_steps(depth: int, threads: int, seconds: float) -> float:
    """Steps per second of this process, once it is told to go."""
    torch.set_num_threads(threads)
    step = make_step("dwp", depth=depth, dtype=torch.float64)
    for _ in range(5):
        step()
    print("ready", flush=True)
    sys.stdin.readline()
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        step()
        steps += 1
    return steps / (time.perf_counter() - start)


def runs_per_hour(depth: int, processes: int, threads: int, seconds: float) -> float:
    command = [sys.executable, __file__, "--count", str(depth), str(threads), str(seconds)]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    rates = [float(worker.communicate()[0]) for worker in workers]
    return 3600 * sum(rates) / STEPS_PER_RUN


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs per hour: processes against threads.")
    parser.add_argument("--count", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/workers.json"))
    options = parser.parse_args()
    if options.count:
        depth, threads, seconds = options.count
        print(count_steps(int(depth), int(threads), float(seconds)))
        return
    cores = os.cpu_count() or 1
    record: dict[str, object] = {"environment": environment(), "cores": cores}
    print("| depth | one thread each | one process | ratio |\n|---|---|---|---|")
    for depth in (2, 5):
        turns = [
            (
                runs_per_hour(depth, cores, 1, options.seconds),
                runs_per_hour(depth, 1, cores, options.seconds),
            )
            for _ in range(options.repeats)
        ]
        processes, threads = (statistics.median(side) for side in zip(*turns, strict=True))
        record[f"depth_{depth}"] = {"processes": processes, "threads": threads}
        print(
            f"| {depth} | {processes:.1f} | {threads:.1f} | {processes / threads:.2f} |", flush=True
        )
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
