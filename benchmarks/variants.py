"""What a step costs with another output layer, or another family of posteriors.

    python benchmarks/variants.py

Steps of deep Wishart processes on boston's shape, double precision, two threads, are timed in turn;
each time is divided by that of the model with pseudo-observations for an output layer and the
posterior of 2021. Medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch

from deepwishart._support.machine import threads
from deepwishart.benchmark import alternate, environment, make_step

VARIANTS: dict[str, dict[str, Any]] = {
    "bartlett": {},
    "rows": {"posterior": "rows"},
    "columns": {"posterior": "columns"},
    "rows_columns": {"posterior": "rows_columns"},
    "collapsed output": {"output": "collapsed"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=15, help="steps of each in a round")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/variants.json"))
    asked = parser.parse_args()
    ratios: dict[str, dict[str, list[float]]] = {}
    with threads(2):
        for depth in (2, 5):
            steps = [
                make_step("dwp", depth=depth, dtype=torch.float64, **options)
                for options in VARIANTS.values()
            ]
            for _ in range(asked.rounds):
                times = dict(zip(VARIANTS, alternate(steps, asked.repeats), strict=True))
                for name, seconds in times.items():
                    own = ratios.setdefault(name, {}).setdefault(str(depth), [])
                    own.append(seconds / times["bartlett"])
    print("| | depth 2 | depth 5 |\n|---|---|---|")
    for name, found in ratios.items():
        shown = (f"{statistics.median(each):.2f}" for each in found.values())
        print(f"| {name} | " + " | ".join(shown) + " |")
    record = {"environment": environment(), "ratios": ratios}
    asked.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
