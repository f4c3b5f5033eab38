"""Steps and seconds until training passes the bound that the paper published.

    DEEPWISHART_DATA=... python benchmarks/convergence.py --paper yacht-2 boston-2

For each cell (data set and depth; deep Wishart process, split 0, seed 0) the protocols ``fast``
(500 steps) and ``converged`` (2,000) are run to their ends. Said are the bounds afterwards, with
1,000 fresh samples, the first step at which a mean over 25 steps passes the published mean, and the
time until then, the single layer that training starts from included; beside it the time that
20,000 steps of the paper's protocol take at the pace of a few. For cells after ``--paper`` that
protocol is run as well, until it passes. ``visits`` are rows times posterior samples of
``converged``. Cells can be measured in several calls: others in the file are kept.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from deepwishart._support.machine import threads
from deepwishart.benchmark import environment
from deepwishart.datasets import load
from deepwishart.estimators import ScaledModel, estimate_elbo
from deepwishart.reproduction.published import published
from deepwishart.spec import ModelSpec
from deepwishart.training import History, adjust_protocol, model_options, train

BARS = {
    "yacht-2": 2.02,
    "yacht-5": 1.72,
    "boston-2": -0.335,
    "boston-5": -0.37,
    "energy-2": 1.445,
    "concrete-2": -0.42,
    "kin8nm-2": -0.16,
    "power-2": 0.03,
}
CELLS = list(BARS)
PAPER_STEPS, PACE_STEPS, WINDOW = 20_000, 30, 25
HEADER = (
    "cell",
    "published",
    "bound of `fast`",
    "bound of `converged`",
    "bar",
    "steps to pass",
    "seconds to pass",
    "`paper`: seconds to pass",
    "times faster",
    "`paper`: 20,000 steps",
    "visits",
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to the published bound.")
    parser.add_argument("--cells", nargs="+", default=CELLS, metavar="DATASET-DEPTH")
    parser.add_argument("--paper", nargs="*", default=[], metavar="DATASET-DEPTH")
    parser.add_argument("--protocols", nargs="+", default=["fast", "converged"])
    parser.add_argument("--max-iter", type=int, help="steps of converged; by default its own 2,000")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/convergence.json"))
    options = parser.parse_args()
    record = json.loads(options.out.read_text()) if options.out.exists() else {"cells": {}}
    record["environment"] = environment()
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER))
    with threads(options.threads):
        for cell in options.cells:
            found = record["cells"].setdefault(cell, {})
            found |= measure(cell, options.protocols, options.max_iter, cell in options.paper)
            print(row(cell, found), flush=True)
            options.out.write_text(json.dumps(record, indent=1) + "\n")


def measure(
    cell: str, protocols: list[str], max_iter: int | None, with_paper: bool
) -> dict[str, Any]:
    name, depth = cell.rsplit("-", 1)
    split = load(name).split(0)
    X, y = split.X_train, split.y_train[:, None]
    goal = published("elbo", name, "dwp", int(depth)).mean

    def start(
        protocol: str, steps: int | None = None
    ) -> tuple[ScaledModel, Any, tuple[torch.Tensor, torch.Tensor]]:
        options = model_options(protocol, len(X))
        scaled = ScaledModel.build(ModelSpec(X.shape[1], depth=int(depth), **options), X, y)
        adjusted = adjust_protocol(protocol, len(X), max_iter=steps, output=options["output"])
        return scaled, adjusted, scaled.standardise(X, y)

    found: dict[str, Any] = {"published": goal, "paper_seconds": pace(start) * PAPER_STEPS}
    for choice in protocols:
        scaled, protocol, data = start(choice, max_iter if choice == "converged" else None)
        history = train(scaled.model, *data, protocol)
        generator = torch.Generator().manual_seed(1_000_003)
        bound = estimate_elbo(scaled.model, *data, num_samples=1000, generator=generator)
        step = first_pass(history, goal)
        found[choice] = {
            "elbo": bound.mean,
            "elbo_se": bound.standard_error,
            "steps": len(history),
            "num_samples": protocol.num_samples,
            "seconds": history.seconds[-1],
            "steps_to_pass": step,
            "seconds_to_pass": None if step is None else history.seconds[step],
            "visits": len(history) * len(X) * protocol.num_samples,
        }
    if with_paper:
        scaled, protocol, data = start("paper")

        def passed(history: History) -> bool:
            return len(history) % 20 == 0 and first_pass(history, goal) is not None

        history = train(scaled.model, *data, protocol, should_stop=passed)
        step = first_pass(history, goal)
        found["paper"] = {
            "steps_to_pass": step,
            "seconds_to_pass": None if step is None else history.seconds[step],
            "seconds": history.seconds[-1],
        }
    return found


def first_pass(history: History, goal: float) -> int | None:
    """The first step at which a mean over ``WINDOW`` steps after annealing passes."""
    elbo = np.array(history.elbo)
    if len(elbo) < WINDOW:
        return None
    smooth = np.convolve(elbo, np.full(WINDOW, 1 / WINDOW), mode="valid")
    whole = np.array(history.kl_weight)[: len(smooth)] >= 1.0  # at the window's first step
    steps = np.flatnonzero(whole & (smooth >= goal))
    return int(steps[0]) + WINDOW - 1 if len(steps) else None


def pace(start: Callable[[str], Any]) -> float:
    """Seconds of a step of the paper's protocol."""
    scaled, protocol, data = start("paper")
    train(scaled.model, *data, protocol.replace(max_iter=5, kl_anneal=0))
    began = time.perf_counter()
    train(scaled.model, *data, protocol.replace(max_iter=PACE_STEPS, kl_anneal=0))
    return (time.perf_counter() - began) / PACE_STEPS


def row(cell: str, found: dict[str, Any]) -> str:
    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    def bound(name: str) -> str:
        run = found.get(name)
        return "-" if run is None else f"{run['elbo']:.4f} ± {run['elbo_se']:.4f}"

    runs = [found[name] for name in ("fast", "converged") if name in found]
    passing = next((run for run in runs if run["steps_to_pass"] is not None), {})
    seconds, paper = passing.get("seconds_to_pass"), found.get("paper", {})
    slow = paper.get("seconds_to_pass")
    parts = [
        cell,
        shown(found["published"], ".2f"),
        bound("fast"),
        bound("converged"),
        shown(BARS.get(cell), ".3f"),
        shown(passing.get("steps_to_pass"), ",")
        + (" of " + f"{passing['steps']:,}" if passing else ""),
        shown(seconds, ".1f"),
        f"more than {paper['seconds']:.0f}" if paper and slow is None else shown(slow, ".0f"),
        "-" if slow is None or seconds is None else f"{slow / seconds:.1f}",
        f"{found['paper_seconds']:.0f}",
        f"{found['converged']['visits']:.1e}" if "converged" in found else "-",
    ]
    return "| " + " | ".join(parts) + " |"


if __name__ == "__main__":
    main()
