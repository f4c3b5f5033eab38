"""Does single precision train as well as double? ELBOs on yacht, dtype against dtype.

    DEEPWISHART_DATA=... python benchmarks/precision.py

Five layers, 2,000 steps, three seeds; each seed is trained in both dtypes from the same start. The
line to read is the mean difference of the final ELBOs per data point.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from deepwishart.benchmark import environment
from deepwishart.datasets import load
from deepwishart.experiments import RunSpec, Settings
from deepwishart.experiments.run import run

DTYPES = ("float64", "float32")


def main() -> None:
    parser = argparse.ArgumentParser(description="Final ELBOs in single and double precision.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/precision.json"))
    options = parser.parse_args()
    yacht = load("yacht")
    results: dict[str, list[float]] = {dtype: [] for dtype in DTYPES}
    print("| seed | float64 | float32 | difference |\n|---|---|---|---|")
    for seed in range(options.seeds):
        spec = RunSpec("yacht", 0, "dwp", options.depth, seed, "fast")
        for dtype in DTYPES:
            settings = Settings(dtype=dtype, max_iter=options.steps)
            with tempfile.TemporaryDirectory() as scratch:
                record = run(spec, settings, yacht, Path(scratch)).record
            results[dtype].append(record["elbo"])
        double, single = (results[dtype][-1] for dtype in DTYPES)
        print(f"| {seed} | {double:.4f} | {single:.4f} | {single - double:+.4f} |", flush=True)
    difference = statistics.mean(results["float32"]) - statistics.mean(results["float64"])
    print(f"mean difference, single less double: {difference:+.4f}")
    record = {
        "environment": environment(),
        "steps": options.steps,
        "depth": options.depth,
        "elbo": results,
        "mean_difference": difference,
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
