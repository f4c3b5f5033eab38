"""What each choice of the regressor's deeper models is worth: posterior, bound, inputs, kernel.

    DEEPWISHART_DATA=... python benchmarks/effects.py run --tables yacht boston energy concrete
    python benchmarks/effects.py report

Models of one given depth with constant Gaussian noise, on the tables and splits of
``practitioners.py``, each split with a seed of its own. A cell is a line of
``benchmarks/results/effects.jsonl``; those already there are not run again. The report has means
over tables of the differences from the first model, paired by split, with standard errors over
tables.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from practitioners import TABLES, read, split

from deepwishart import DeepKernelRegressor
from deepwishart.estimators import score

RESULTS = Path("benchmarks/results/effects.jsonl")
ANCHORED = {"posterior": "anchored", "kernel": "squared_exponential"}
PLAIN = {"inputs": "first", "bound": "titsias2009"}
JOINED = {"inputs": "all", "bound": "titsias2009"}
BOTH = {"inputs": "all", "bound": "tight"}
MODELS: dict[str, dict[str, Any]] = {
    "anchored": {**ANCHORED, **PLAIN},
    "rows_columns": {**ANCHORED, **PLAIN, "posterior": "rows_columns"},
    "bartlett": {**ANCHORED, **PLAIN, "posterior": "bartlett"},
    "anchored, tight": {**ANCHORED, **PLAIN, "bound": "tight"},
    "anchored, joined": {**ANCHORED, **JOINED},
    "anchored, joined, tight": {**ANCHORED, **BOTH},
    "rows_columns, joined, tight": {**ANCHORED, **BOTH, "posterior": "rows_columns"},
    "anchored, joined, tight, matern32": {**ANCHORED, **BOTH, "kernel": "matern32"},
}
SINGLE = ("squared_exponential", "matern52", "matern32", "rational_quadratic")
MODELS |= {f"one layer, {kernel}": {"depth": 1, "kernel": kernel} for kernel in SINGLE}


def measure(table: str, number: int, model: str, depth: int) -> dict[str, Any]:
    X, y, X_test, y_test = split(table, number)
    options = {"depth": depth, "likelihood": "gaussian", **MODELS[model]}
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        regressor = DeepKernelRegressor(random_state=number, **options).fit(X, y)
        seconds = time.process_time() - began
        (scores,) = score(regressor.predict_distribution(X_test), y_test[:, None])
    cell = {"table": table, "split": number, "model": model, "depth": regressor.model_.depth}
    return {**cell, "bound": regressor.elbo_, "seconds": round(seconds, 2), **scores}


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    done = {(c["table"], c["split"], c["model"], c["depth"]) for c in read(options.out)}
    for number in options.splits:
        for table in options.tables:
            for model in options.models:
                depth = MODELS[model].get("depth", options.depth)
                if (table, number, model, depth) in done:
                    continue
                cell = measure(table, number, model, depth)
                with options.out.open("a") as out:
                    out.write(json.dumps(cell) + "\n")
                print(f"{table} split {number} {model}: bound {cell['bound']:.3f}", flush=True)


def gains(cells: list[dict[str, Any]], model: str, first: str, depth: int) -> np.ndarray:
    """Differences in bound, log likelihood and relative CRPS, means over splits by table."""

    def of(name: str) -> dict[Any, dict[str, Any]]:
        own = MODELS[name].get("depth", depth)
        found = [c for c in cells if c["model"] == name and c["depth"] == own]
        return {(c["table"], c["split"]): c for c in found}

    new, old, tables = of(model), of(first), {}
    for key in new.keys() & old.keys():
        a, b = new[key], old[key]
        differences = [a[name] - b[name] for name in ("bound", "log_likelihood")]
        row = [*differences, a["crps"] / b["crps"] - 1.0, a["seconds"] / b["seconds"]]
        tables.setdefault(key[0], []).append(row)
    return np.array([np.mean(rows, axis=0) for rows in tables.values()])


def report(options: argparse.Namespace) -> None:
    cells, first = read(options.out), options.models[0]
    print(f"Differences from {first!r}, depth {options.depth}, means and errors over tables\n")
    print("| model | tables | bound | log likelihood | CRPS, % | time |\n|---|---|---|---|---|---|")
    for model in options.models[1:]:
        found = gains(cells, model, first, options.depth)
        if len(found) < 2:
            continue
        mean, error = found.mean(0), found.std(0, ddof=1) / math.sqrt(len(found))
        parts = [f"{m:+.3f} ± {e:.3f}" for m, e in zip(mean[:2], error[:2], strict=True)]
        parts.append(f"{100 * mean[2]:+.1f} ± {100 * error[2]:.1f}")
        print(f"| {model} | {len(found)} | {' | '.join(parts)} | {mean[3]:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["run", "report"])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    (run if options.action == "run" else report)(options)


if __name__ == "__main__":
    main()
