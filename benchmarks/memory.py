"""Peak resident memory of training and of prediction, each in a process of its own.

    python benchmarks/memory.py

Training: 45,000 rows of 9 features, minibatches of 1,000. Prediction: 1,000,000 rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

import torch

from deepwishart.benchmark import environment


def train(num_rows: int) -> None:
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


def predict(num_rows: int) -> None:
    import deepwishart as dw

    generator = torch.Generator().manual_seed(0)
    X = torch.randn(num_rows, 9, generator=generator, dtype=torch.float64)
    small = X[:2000]
    model = dw.build("dwp", small, small[:, 0].sin(), depth=2)
    predictive = model.predict(X, num_samples=100, generator=generator)
    assert predictive.mean.shape == (num_rows,)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs=2, default=[45_000, 1_000_000])
    parser.add_argument("--only", choices=["train", "predict"], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/memory.json"))
    options = parser.parse_args()
    if options.only:
        train(options.rows[0]) if options.only == "train" else predict(options.rows[1])
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        return
    record: dict[str, object] = {"environment": environment()}
    for task in ("train", "predict"):
        done = subprocess.run(
            [sys.executable, __file__, "--rows", *map(str, options.rows), "--only", task],
            capture_output=True,
            text=True,
            check=True,
        )
        peak = int(done.stdout.split()[-1])
        record[f"{task}_peak_bytes"] = peak
        print(f"{task}: peak resident memory {peak / 2**30:.2f} GiB", flush=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
