"""Resident memory, of each task in a process of its own.

    python benchmarks/memory.py

Peaks: of training, 45,000 rows of 9 features in minibatches of 1,000, and of prediction, 1,000,000
rows. Growth in long service: of a process that fits 500 small tables in a row and predicts each,
from the 50th to the last, and of one that predicts 1,000,000 rows ten times by ten posterior
samples, from the first time to the last.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from deepwishart.benchmark import environment


def train(num_rows: int = 45_000) -> int:
    import deepwishart as dw

    generator = torch.Generator().manual_seed(0)
    X = torch.randn(num_rows, 9, generator=generator, dtype=torch.float64)
    y = X[:, 0].sin()
    model = dw.build("dwp", X, y, depth=5)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(20):
        rows = torch.randint(len(X), (1000,), generator=generator)
        optimiser.zero_grad()
        (-dw.elbo(model, X[rows], y[rows], num_data=len(X), generator=generator)).backward()
        optimiser.step()
    return peak()


def predict(times: int = 1, num_rows: int = 1_000_000) -> int:
    import deepwishart as dw

    generator = torch.Generator().manual_seed(0)
    X = torch.randn(num_rows, 9, generator=generator, dtype=torch.float64)
    small = X[:2000]
    model = dw.build("dwp", small, small[:, 0].sin(), depth=2)
    sizes = []
    for _ in range(times):
        samples = 100 if times == 1 else 10
        predictive = model.predict(X, num_samples=samples, generator=generator)
        assert predictive.mean.shape == (num_rows,)
        del predictive
        sizes.append(resident())
    return peak() if times == 1 else sizes[-1] - sizes[0]


def serve_tables(number: int = 500, settled: int = 50) -> int:
    import deepwishart as dw

    random, sizes = np.random.default_rng(0), []
    for each in range(number):
        X = random.normal(size=(random.integers(20, 200), random.integers(1, 8)))
        y = np.sin(X[:, 0]) + 0.1 * random.normal(size=len(X))
        process, depth = (("dwp", 2), ("dgp", 2), ("dwp", "auto"))[each % 3]
        model = dw.DeepKernelRegressor(process=process, depth=depth, max_iter=20, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few steps are too few
            model.fit(X, y).predict(X, return_std=True)
        sizes.append(resident())
    print([size >> 20 for size in sizes[settled - 1 :: settled]], file=sys.stderr)
    return sizes[-1] - sizes[settled - 1]


def resident() -> int:
    """Bytes in memory, what is garbage apart."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak() -> int:
    """The most bytes that were ever in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


TASKS = {
    "train_peak_bytes": train,
    "predict_peak_bytes": predict,
    "growth_over_450_tables_bytes": serve_tables,
    "growth_over_9_predictions_bytes": lambda: predict(times=10),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=TASKS, help="only this one, in this process")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/memory.json"))
    options = parser.parse_args()
    if options.task:
        print(TASKS[options.task]())
        return
    record: dict[str, object] = {"environment": environment()}
    for task in TASKS:
        command = [sys.executable, __file__, "--task", task]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        record[task] = int(done.stdout.split()[-1])
        print(f"{task}: {record[task] / 2**20:.0f} MiB", flush=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
