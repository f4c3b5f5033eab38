"""What closes the gap between minibatches and training on all rows, at equal time.

    DEEPWISHART_DATA=... python benchmarks/minibatch.py --seconds 60

On kin8nm and power (deep Wishart process, depth 2, split 0, seed 0), each way of training gets as
many steps as fit into the same processor time, judged by the pace of ten, and the protocol
``fast`` in all else. Said is the bound afterwards, with 300 fresh samples, on all rows.

- ``all rows``: collapsed output layer, two posterior samples, every row at every step;
- ``plain``: 1,000 rows and ten samples a step, pseudo-observations of the output that start from
  targets of random rows, one learning rate for all parameters;
- ``rates``: the same with the learning rates of ``fast``, higher for kernels and noise;
- ``start``: likewise, and started from a single layer with the best pseudo-observations for it,
  found in one pass over the rows.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch

from deepwishart._support.machine import threads
from deepwishart.benchmark import environment
from deepwishart.datasets import load
from deepwishart.pipeline import ScaledModel, adjust_protocol, estimate_elbo
from deepwishart.reproduction.published import published
from deepwishart.training import Protocol, train

WAYS = ("all rows", "plain", "rates", "start")
PACE_STEPS, FINAL_SAMPLES = 10, 300


def main() -> None:
    parser = argparse.ArgumentParser(description="Minibatches against all rows.")
    parser.add_argument("--datasets", nargs="+", default=["kin8nm", "power"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--seconds", type=float, default=60.0, help="processor time of each way")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/minibatch.json"))
    options = parser.parse_args()
    record = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    record["environment"] = environment()
    print("| data set | published | way | steps | visits | bound |\n|---|---|---|---|---|---|")
    with threads(1):
        for name in options.datasets:
            goal = published("elbo", name, "dwp", 2).mean
            for way in options.ways:
                found = record["cells"][f"{name}, {way}"] = measure(name, way, options.seconds)
                bound = f"{found['elbo']:.4f} ± {found['elbo_se']:.4f}"
                visits = f"{found['visits']:.1e}"
                print(f"| {name} | {goal} | {way} | {found['steps']} | {visits} | {bound} |")
                options.out.write_text(json.dumps(record, indent=1) + "\n")


def measure(name: str, way: str, seconds: float) -> dict[str, Any]:
    split = load(name).split(0)
    X, y = split.X_train, split.y_train[:, None]
    output = "collapsed" if way == "all rows" else "inducing"
    protocol = adjust_protocol("fast", len(X), output=output)
    if way in ("plain", "rates"):
        protocol = protocol.replace(shallow_steps=0)
    if way == "plain":
        protocol = protocol.replace(factors={})

    def start() -> tuple[ScaledModel, tuple[torch.Tensor, torch.Tensor]]:
        scaled = ScaledModel.build("dwp", X, y, depth=2, output=output)
        return scaled, scaled.standardise(X, y)

    before = time.process_time()
    scaled, data = start()
    train(scaled.model, *data, protocol.replace(max_iter=1, kl_anneal=0))
    fixed = time.process_time() - before  # building, the single layer, and a step
    pace = (timed(start, protocol, PACE_STEPS + 1) - fixed) / PACE_STEPS
    steps = max(10, math.floor((seconds - fixed) / pace))
    scaled, data = start()
    before = time.process_time()
    train(scaled.model, *data, protocol.replace(max_iter=steps, kl_anneal=steps // 5))
    spent = time.process_time() - before
    generator = torch.Generator().manual_seed(1_000_003)
    bound = estimate_elbo(scaled.model, *data, num_samples=FINAL_SAMPLES, generator=generator)
    rows = protocol.batch_size or len(X)
    return {
        "elbo": bound.mean,
        "elbo_se": bound.standard_error,
        "steps": steps,
        "visits": steps * rows * protocol.num_samples,
        "seconds": spent,
    }


def timed(start: Any, protocol: Protocol, steps: int) -> float:
    before = time.process_time()
    scaled, data = start()
    train(scaled.model, *data, protocol.replace(max_iter=steps, kl_anneal=0))
    return time.process_time() - before


if __name__ == "__main__":
    main()
