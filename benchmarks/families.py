"""Which posterior family of the deep Wishart process trains best with the regressor's defaults.

    python benchmarks/families.py --datasets yacht boston energy --depths 2 3 --splits 10

Every family is trained on the same published splits of the UCI sets, each split with a seed of its
own, with the protocol "fast" and as many inducing points as the regressor chooses. Printed are
means over splits with standard errors, and of the differences from the first family, paired by
split.
"""

import argparse
import json
import math
import sys
import warnings
from pathlib import Path

import numpy as np

from deepwishart import DeepKernelRegressor
from deepwishart._support.machine import threads
from deepwishart.estimators import score
from deepwishart.reproduction.datasets import load

FAMILIES = ("rows_columns", "bartlett", "anchored")
NUMBERS = ("elbo", "log_likelihood", "crps")


def run(dataset: str, depth: int, split: int, family: str, steps: int | None) -> dict[str, float]:
    """One fit, with its bound and its scores on the test rows."""
    rows = load(dataset).split(split)
    regressor = DeepKernelRegressor(
        depth=depth, posterior=family, likelihood="gaussian", max_iter=steps, random_state=split
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        regressor.fit(rows.X_train, rows.y_train)
        (scores,) = score(regressor.predict_distribution(rows.X_test), rows.y_test[:, None])
    return {
        "elbo": regressor.elbo_,
        "log_likelihood": scores["log_likelihood"],
        "crps": scores["crps"],
        "seconds": regressor.history_.seconds[-1],
    }


def summary(values: list[float]) -> str:
    """Mean and standard error."""
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{np.mean(values):8.3f} ± {error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["yacht", "boston", "energy"])
    parser.add_argument("--depths", nargs="+", type=int, default=[2, 3])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--families", nargs="+", default=list(FAMILIES))
    parser.add_argument("--steps", type=int, help="instead of the protocol's")
    parser.add_argument("--out", type=Path, help="add a line of JSON for every fit; resumes")
    options = parser.parse_args()
    done: dict[tuple[object, ...], dict[str, float]] = {}
    if options.out and options.out.exists():
        for line in options.out.read_text("utf-8").splitlines():
            found = json.loads(line)
            done[tuple(found["run"])] = found["numbers"]
    for dataset in options.datasets:
        for depth in options.depths:
            columns: dict[str, list[dict[str, float]]] = {name: [] for name in options.families}
            for split in range(options.splits):
                for family in options.families:
                    key = (dataset, depth, split, family, options.steps)
                    if key not in done:
                        with threads(1):
                            done[key] = run(*key)
                        if options.out:
                            with options.out.open("a", encoding="utf-8") as file:
                                file.write(json.dumps({"run": key, "numbers": done[key]}) + "\n")
                    columns[family].append(done[key])
            print(f"{dataset}, depth {depth}, {options.splits} splits")
            first = columns[options.families[0]]
            for family, found in columns.items():
                cells = [summary([each[name] for each in found]) for name in NUMBERS]
                gains = [
                    summary(
                        [each[name] - one[name] for each, one in zip(found, first, strict=True)]
                    )
                    for name in NUMBERS
                ]
                seconds = np.median([each["seconds"] for each in found])
                print(f"  {family:13s} {'  '.join(cells)}  {seconds:5.1f} s", end="")
                print("" if found is first else f"  gain {'  '.join(gains)}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
