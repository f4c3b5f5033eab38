"""Bounds after training with the protocol ``fast`` and with one thing changed at a time.

    DEEPWISHART_DATA=... python benchmarks/protocols.py --seeds 0 1

Deep Wishart process, split 0, collapsed output layer; the bound per row is from 1,000 fresh samples
after the last step. One line per run is kept in ``benchmarks/results/protocols.jsonl``, and runs
that are there are not repeated, so that a call can be interrupted and given again. The table has a
row for each variant and a column for each cell, with means over seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from deepwishart._support.machine import threads
from deepwishart.datasets import load
from deepwishart.estimators import ScaledModel, estimate_elbo
from deepwishart.spec import ModelSpec
from deepwishart.training import adjust_protocol, model_options, train

CELLS = ("yacht-2", "boston-2", "energy-2", "concrete-2", "yacht-5", "boston-5")
VARIANTS: dict[str, dict[str, Any]] = {
    "`fast`": {},
    "no fading in": {"kl_anneal": 0},
    "faded in over 250 steps": {"kl_anneal": 250},
    "learning rate from 3e-2": {"learning_rate": 3e-2},
    "learning rate from 8e-2": {"learning_rate": 8e-2},
    "one rate for all parameters": {"factors": {"scale": 0.0}},
    "learned scale trained": {"factors": {"kernel": 3.0}},
    "Adam's second beta 0.999": {"betas": (0.9, 0.999)},
    "five samples": {"num_samples": 5},
    "`converged` (2,000 steps)": {"max_iter": 2_000},
    "`converged`, faded in over 600 steps": {"max_iter": 2_000, "kl_anneal": 600},
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Variants of the protocol fast.")
    parser.add_argument("--cells", nargs="+", default=CELLS, choices=CELLS)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/protocols.jsonl"))
    options = parser.parse_args()
    done = [json.loads(line) for line in options.out.open()] if options.out.exists() else []
    with threads(1):
        for seed in options.seeds:
            for variant in options.variants:
                for cell in options.cells:
                    key = {"cell": cell, "variant": variant, "seed": seed}
                    if not any(key.items() <= line.items() for line in done):
                        done.append(key | run(cell, seed, VARIANTS[variant]))
                        with options.out.open("a") as file:
                            print(json.dumps(done[-1]), file=file)
    print("| | " + " | ".join(options.cells) + " |\n|---|" + "---|" * len(options.cells))
    for variant in options.variants:
        shown = []
        for cell in options.cells:
            found = [d["elbo"] for d in done if d["cell"] == cell and d["variant"] == variant]
            shown.append(f"{statistics.mean(found):.3f}" if found else "-")
        print(f"| {variant} | " + " | ".join(shown) + " |")


def run(cell: str, seed: int, changes: dict[str, Any]) -> dict[str, Any]:
    name, depth = cell.rsplit("-", 1)
    split = load(name).split(0)
    X, y = split.X_train, split.y_train[:, None]
    options = model_options("fast", len(X))
    scaled = ScaledModel.build(ModelSpec(X.shape[1], depth=int(depth), **options), X, y, seed=seed)
    protocol = adjust_protocol("fast", len(X), output=options["output"]).replace(**changes)
    data, before = scaled.standardise(X, y), time.process_time()
    train(scaled.model, *data, protocol, seed=seed)
    seconds = time.process_time() - before
    generator = torch.Generator().manual_seed(1_000_003)
    bound = estimate_elbo(scaled.model, *data, num_samples=1000, generator=generator)
    return {"elbo": bound.mean, "elbo_se": bound.standard_error, "cpu_seconds": seconds}


if __name__ == "__main__":
    main()
