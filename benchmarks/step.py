"""What a gradient step costs, in units of the machine's own matrix multiply.

    python benchmarks/step.py            # everything: four processes, two dtypes, depths, threads
    python benchmarks/step.py --quick    # the deep Wishart process at two threads only

Timings of steps and of a 1000 x 1000 product alternate in one process, so that noise on a shared
machine hits both; each line reports medians. The ratio is

    step time / (S * depth * (4 P^2 N + 6 P^3) flop / GEMM rate).
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import deepwishart as dw
from deepwishart import _native

NUM_SAMPLES, NUM_INDUCING, NUM_ROWS, NUM_FEATURES = 10, 100, 455, 13  # boston's shape


@dataclass(frozen=True)
class Measurement:
    """One line of the table; times in milliseconds, the rate in gigaflop per second."""

    process: str
    dtype: str
    depth: int
    threads: int
    step_ms: float
    gemm_gflops: float
    ratio: float


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def make_step(
    process: str,
    *,
    depth: int,
    dtype: torch.dtype,
    num_rows: int = NUM_ROWS,
    width: int | None = None,
    num_inducing: int = NUM_INDUCING,
) -> Callable[[], None]:
    """Forward, backward and Adam on random data of boston's shape."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(num_rows, NUM_FEATURES, generator=generator, dtype=dtype)
    y = X[:, 0].sin()
    model = dw.build(
        process, X, y, depth=depth, width=width, num_inducing=num_inducing, dtype=dtype
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        bound = dw.elbo(
            model, X, y, num_data=num_rows, num_samples=NUM_SAMPLES, generator=generator
        )
        (-bound).backward()
        optimiser.step()

    return step


def alternate(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Median seconds of each function, called in turn."""
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        for _ in range(3):
            function()
    for _ in range(repeats):
        for record, function in zip(times, functions, strict=True):
            record.append(seconds(function))
    return [statistics.median(record) for record in times]


def necessary_flop(depth: int, num_rows: int = NUM_ROWS) -> float:
    P = NUM_INDUCING
    return NUM_SAMPLES * depth * (4 * P**2 * num_rows + 6 * P**3)


def measure(process: str, dtype_name: str, depth: int, threads: int, repeats: int) -> Measurement:
    torch.set_num_threads(threads)
    dtype = getattr(torch, dtype_name)
    square = torch.randn(1000, 1000, dtype=dtype)
    step_time, gemm_time = alternate(
        [make_step(process, depth=depth, dtype=dtype), lambda: square @ square], repeats
    )
    rate = 2 * 1000**3 / gemm_time
    ratio = step_time / (necessary_flop(depth) / rate)
    return Measurement(process, dtype_name, depth, threads, 1e3 * step_time, rate / 1e9, ratio)


def environment() -> dict[str, str]:
    return {
        "torch": torch.__version__,
        "deepwishart": dw.__version__,
        "native": _native.status(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of a gradient step in matrix multiplies.")
    parser.add_argument("--quick", action="store_true", help="dwp at two threads only")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/step.json"))
    options = parser.parse_args()
    processes = ["dwp"] if options.quick else ["dwp", "dgp", "dsvi", "diwp"]
    results = []
    print("| process | dtype | depth | threads | step (ms) | GEMM (GF/s) | ratio |")
    print("|---|---|---|---|---|---|---|")
    for threads in (2,) if options.quick else (1, 2):
        for dtype_name in ("float64", "float32"):
            for depth in (2, 5):
                for process in processes:
                    m = measure(process, dtype_name, depth, threads, options.repeats)
                    results.append(m)
                    print(
                        f"| {m.process} | {m.dtype} | {m.depth} | {m.threads} | {m.step_ms:.1f} "
                        f"| {m.gemm_gflops:.0f} | {m.ratio:.2f} |",
                        flush=True,
                    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    record = {"environment": environment(), "measurements": [asdict(m) for m in results]}
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
