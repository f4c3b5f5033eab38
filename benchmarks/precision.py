"""Does single precision train as well as double? ELBOs on yacht, dtype against dtype.

    DEEPWISHART_DATA=... python benchmarks/precision.py

Five layers, 2,000 steps, three seeds; each seed is trained in both dtypes from the same start. The
line to read is the mean difference of the final ELBOs per data point. Seeds can be trained in
several calls: results of others in the file, made with the same depth and steps, are kept.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from deepwishart.benchmark import environment
from deepwishart.datasets import load
from deepwishart.reproduction.sweeps import RunSpec, Settings
from deepwishart.reproduction.sweeps.run import run

DTYPES = ("float64", "float32")


def main() -> None:
    parser = argparse.ArgumentParser(description="Final ELBOs in single and double precision.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/precision.json"))
    options = parser.parse_args()
    yacht = load("yacht")
    record = {"environment": environment(), "steps": options.steps, "depth": options.depth}
    elbos = earlier_results(options.out, record)
    print("| seed | float64 | float32 | difference |\n|---|---|---|---|")
    for seed in options.seeds:
        spec = RunSpec("yacht", 0, "dwp", options.depth, seed, "fast")
        own = elbos[str(seed)] = {}
        for dtype in DTYPES:
            settings = Settings({"dtype": dtype}, max_iter=options.steps)
            with tempfile.TemporaryDirectory() as scratch:
                own[dtype] = run(spec, settings, yacht, Path(scratch))[0]["elbo"]
        double, single = (own[dtype] for dtype in DTYPES)
        print(f"| {seed} | {double:.4f} | {single:.4f} | {single - double:+.4f} |", flush=True)
        difference = statistics.mean(e["float32"] - e["float64"] for e in elbos.values())
        kept = record | {"elbo": elbos, "mean_difference": difference}
        options.out.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"mean difference of {len(elbos)} seeds, single less double: {difference:+.4f}")


def earlier_results(path: Path, record: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Final ELBOs by seed and dtype, if ``path`` has any for the same record."""
    earlier = json.loads(path.read_text()) if path.exists() else {}
    same = all(earlier.get(name) == value for name, value in record.items())
    return earlier["elbo"] if same else {}


if __name__ == "__main__":
    main()
