"""Constant, input-dependent and heavy-tailed noise, and the last two together, on the same splits.

    DEEPWISHART_DATA=... python benchmarks/likelihoods.py
    python benchmarks/likelihoods.py --report

``synthetic`` is a sine whose noise grows with x: 2,000 rows to train on, 8,000 to test, the
quarters of x apart. The others are UCI's, with their published splits. Every model is a deep
Wishart process of depth 2, built and trained as the regressor does it (Gaussian noise with the
collapsed output layer, the others with the inducing one), with the protocol ``fast`` shortened to
the steps in ``SETTINGS``. Finished runs are kept in the file and not repeated. Differences of log
likelihoods are those of the same split, and their standard errors are over splits.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from deepwishart._support.machine import threads
from deepwishart.datasets import load
from deepwishart.estimators import ScaledModel, estimate_elbo
from deepwishart.likelihoods import (
    Gaussian,
    HeteroscedasticGaussian,
    HeteroscedasticStudentT,
    Likelihood,
    StudentT,
)
from deepwishart.spec import ModelSpec
from deepwishart.training import adjust_protocol, run_training


class Setting(NamedTuple):
    """How a data set is trained on."""

    steps: int
    num_inducing: int
    output: str = "collapsed"  # for Gaussian noise


SETTINGS = {
    "synthetic": Setting(steps=500, num_inducing=30),
    "energy": Setting(steps=500, num_inducing=100),
    "concrete": Setting(steps=500, num_inducing=100),
    "wine": Setting(steps=500, num_inducing=100),
    "power": Setting(steps=500, num_inducing=100),
}
LIKELIHOODS: dict[str, type[Likelihood]] = {
    "gaussian": Gaussian,
    "heteroscedastic": HeteroscedasticGaussian,
    "student_t": StudentT,
    "heteroscedastic_t": HeteroscedasticStudentT,
}
TEST_ROWS = 8000  # of the synthetic data
QUARTERS = ("first", "second", "third", "fourth")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--likelihoods", nargs="+", default=list(LIKELIHOODS), choices=LIKELIHOODS)
    parser.add_argument("--report", action="store_true", help="print what is in the file")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/likelihoods.jsonl"))
    options = parser.parse_args()
    if not options.report:
        done = {(run["set"], run["split"], run["likelihood"]) for run in read(options.out)}
        for split in options.splits:
            for name in options.sets:
                for likelihood in options.likelihoods:
                    if (name, split, likelihood) in done:
                        continue
                    with threads(1):
                        run = measure(name, split, likelihood)
                    with options.out.open("a") as file:
                        file.write(json.dumps(run) + "\n")
                    print(run["set"], run["split"], run["likelihood"], summary(run), flush=True)
    report(read(options.out))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(name: str, split: int, kind: str) -> dict[str, Any]:
    """Train on one split, and score its test rows one by one."""
    X, y, X_test, y_test = synthetic(split) if name == "synthetic" else load(name).split(split)
    setting, started = SETTINGS[name], time.process_time()
    output = setting.output if kind == "gaussian" else "inducing"
    noise, points = LIKELIHOODS[kind](1), setting.num_inducing
    spec = ModelSpec(X.shape[1], num_inducing=points, likelihood=noise, output=output)
    scaled = ScaledModel.build(spec, X, y[:, None], seed=split)
    data = scaled.standardise(X, y[:, None])
    protocol = adjust_protocol("fast", len(X), max_iter=setting.steps, output=output)
    run_training(scaled.model, *data, protocol, seed=split)
    seconds = time.process_time() - started
    generator = torch.Generator().manual_seed(0)
    bound = estimate_elbo(scaled.model, *data, num_samples=100, generator=generator)
    prediction = scaled.predict(X_test, 100).column(0)
    return {
        "set": name,
        "split": split,
        "likelihood": kind,
        **setting._asdict(),
        "batch_size": protocol.batch_size,
        "num_samples": protocol.num_samples,
        "cpu_seconds": round(seconds, 1),
        "elbo": round(bound.mean, 4),
        "rmse": float(np.sqrt(np.square(prediction.mean - y_test).mean())),
        **by_rows(prediction.log_prob(y_test), prediction.cdf(y_test)),
    }


def by_rows(log_prob: np.ndarray, cdf: np.ndarray) -> dict[str, Any]:
    """Log likelihood and whether a row is in its central 90% interval; of neighbouring rows, where
    there are thousands that are equally spaced, the means of a hundred."""
    inside = (np.abs(2 * cdf - 1) <= 0.9).astype(float)
    if len(cdf) == TEST_ROWS:
        log_prob, inside = (each.reshape(-1, 100).mean(1) for each in (log_prob, inside))
    return {"log_prob": log_prob.round(4).tolist(), "inside": inside.round(4).tolist()}


def synthetic(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A sine with noise of standard deviation 0.05 + 0.15 x, x from 0 to 4."""
    random = np.random.default_rng(seed)
    X, X_test = (
        random.uniform(0, 4, (2000, 1)),
        np.linspace(0, 4, TEST_ROWS, endpoint=False)[:, None],
    )
    y, y_test = (
        np.sin(2 * x[:, 0]) + (0.05 + 0.15 * x[:, 0]) * random.standard_normal(len(x))
        for x in (X, X_test)
    )
    return X, y, X_test, y_test


def summary(run: dict[str, Any]) -> str:
    return (
        f"log likelihood {np.mean(run['log_prob']):.3f}, RMSE {run['rmse']:.4g}, inside the 90% "
        f"interval {np.mean(run['inside']):.3f}, ELBO {run['elbo']:.3f}, {run['cpu_seconds']:.0f} s"
    )


def report(runs: list[dict[str, Any]]) -> None:
    found: dict[str, dict[int, dict[str, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        found[run["set"]][run["split"]][run["likelihood"]] = run
    if "synthetic" in found:
        print("\n| synthetic, seed | likelihood | log likelihood | " + " | ".join(QUARTERS) + " |")
        print("|---" * (3 + len(QUARTERS)) + "|")
        for seed, kinds in sorted(found["synthetic"].items()):
            for kind, run in kinds.items():
                quarters = " | ".join(
                    f"{part.mean():.3f}" for part in np.split(np.array(run["inside"]), 4)
                )
                print(f"| {seed} | {kind} | {np.mean(run['log_prob']):.3f} | {quarters} |")
    print("\n| set | splits | likelihood | log likelihood | minus gaussian | RMSE | inside 90% |")
    print("|---" * 7 + "|")
    for name in (each for each in SETTINGS if each in found):
        complete = [kinds for kinds in found[name].values() if len(kinds) == len(LIKELIHOODS)]
        for kind in LIKELIHOODS if complete else ():
            print(f"| {name} | {len(complete)} | {kind} | {_line(complete, kind)} |")


def _line(splits: list[dict[str, dict[str, Any]]], kind: str) -> str:
    means = np.array([np.mean(each[kind]["log_prob"]) for each in splits])
    rows = [np.subtract(each[kind]["log_prob"], each["gaussian"]["log_prob"]) for each in splits]
    by_split = np.array([each.mean() for each in rows])
    error = by_split.std(ddof=1) / np.sqrt(len(by_split)) if len(by_split) > 1 else np.nan
    gain = (
        f"{by_split.mean():+.3f} ± {error:.3f} (splits: "
        f"{' '.join(f'{each:+.3f}' for each in by_split)})"
    )
    rmse = np.mean([each[kind]["rmse"] for each in splits])
    covered = np.concatenate([each[kind]["inside"] for each in splits]).mean()
    spread = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
    gain = "" if kind == "gaussian" else gain
    return f"{means.mean():.3f} ± {spread:.3f} | {gain} | {rmse:.4g} | {covered:.3f}"


if __name__ == "__main__":
    main()
