"""What the defaults rest on: inducing points, stopping, samples of a prediction.

    DEEPWISHART_DATA=... python benchmarks/defaults.py points stopping prediction

``points``: the bound after training when inducing points start at random rows, at those with the
largest conditional variance (greedily, as Burt et al. 2020), and at the centres of k-means.
``stopping``: the bound with the whole schedule and with stopping, and the steps taken.
``prediction``: for numbers of posterior samples, the error of a prediction against one from many
samples, its log likelihood, and processor time for 1,000 rows. Deep Wishart process of two layers,
100 inducing points, split 0 of each set; one thread. Cells can be measured in several calls: others
in the file are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from torch import Tensor

from deepwishart.datasets import load
from deepwishart.estimators import ScaledModel, estimate_elbo, score
from deepwishart.spec import ModelSpec
from deepwishart.training import adjust_protocol, run_training

SETS = ("yacht", "boston", "energy", "concrete", "diabetes")
SAMPLES = (10, 30, 100, 300)
POINTS, MANY = 100, 3_000


def data(name: str) -> tuple[np.ndarray, ...]:
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        parts = train_test_split(X, y[:, None], test_size=0.1, random_state=0)
        return parts[0], parts[2], parts[1], parts[3]
    split = load(name).split(0)
    return split.X_train, split.y_train[:, None], split.X_test, split.y_test[:, None]


def random_rows(X: Tensor) -> Tensor | None:
    """The library's own choice."""
    return None


def greedy(X: Tensor) -> Tensor:
    """Rows of the largest variance given those before, under the kernel that models start with."""
    F = X / X.shape[1] ** 0.5
    variance, factors, chosen = torch.ones(len(X), dtype=X.dtype), [], []
    for _ in range(min(POINTS, len(X))):
        row = int(variance.argmax())
        column = (-0.5 * (F - F[row]).square().sum(-1)).exp()
        for factor in factors:
            column = column - factor * factor[row]
        factors.append(column / variance[row].sqrt())
        variance = (variance - factors[-1].square()).clamp_min(0.0)
        chosen.append(row)
    return X[chosen]


def k_means(X: Tensor) -> Tensor:
    found = KMeans(min(POINTS, len(X)), n_init=1, random_state=0).fit(X.numpy())
    return torch.as_tensor(found.cluster_centers_)


CHOICES: dict[str, Callable[[Tensor], Tensor | None]] = {
    "random rows": random_rows,
    "greedy": greedy,
    "k-means": k_means,
}


def trained(
    name: str, choice: str = "random rows", *, early_stopping: bool = False
) -> tuple[ScaledModel, dict[str, Any]]:
    X, y, _, _ = data(name)
    spec = ModelSpec(X.shape[1], depth=2, num_inducing=POINTS, output="collapsed")
    plain = ScaledModel.build(spec, X, y)
    rows = plain.standardise(X, y)
    points = CHOICES[choice](rows[0])
    scaled = ScaledModel.build(spec, X, y, inducing_inputs=points)
    protocol = adjust_protocol("fast", len(X), output="collapsed", num_inducing=POINTS)
    began = time.process_time()
    history = run_training(scaled.model, *rows, protocol, early_stopping=early_stopping)
    seconds = time.process_time() - began
    generator = torch.Generator().manual_seed(1_000_003)
    bound = estimate_elbo(scaled.model, *rows, num_samples=300, generator=generator)
    facts = {"elbo": bound.mean, "elbo_se": bound.standard_error, "steps": len(history)}
    return scaled, {**facts, "stopped_by": history.stopped_by, "seconds": seconds}


def points(name: str) -> dict[str, Any]:
    return {choice: trained(name, choice)[1] for choice in CHOICES}


def stopping(name: str) -> dict[str, Any]:
    found = {
        "whole": trained(name)[1],
        "stopping": trained(name, early_stopping=True)[1],
    }
    return {**found, "loss": found["whole"]["elbo"] - found["stopping"]["elbo"]}


def prediction(name: str) -> dict[str, Any]:
    scaled, _ = trained(name)
    _, _, X_test, y_test = data(name)
    many = X_test[np.arange(1_000) % len(X_test)]
    exact = scaled.predict(X_test, MANY, seed=1)
    mean, stddev = exact.mean_and_stddev()
    found: dict[str, Any] = {"many": score(exact, y_test)[0]["log_likelihood"]}
    for samples in SAMPLES:
        errors, gaps, densities, first, later = [], [], [], [], []
        for seed in range(2, 6):
            began = time.process_time()
            scaled.predict(many, samples, seed=seed).mean_and_stddev()
            first.append(time.process_time() - began)
            began = time.process_time()
            scaled.predict(many, samples, seed=seed).mean_and_stddev()
            later.append(time.process_time() - began)
            prediction = scaled.predict(X_test, samples, seed=seed)
            own, spread = prediction.mean_and_stddev()
            errors.append(np.sqrt(np.mean(((own - mean) / stddev) ** 2)))
            gaps.append(np.sqrt(np.mean((spread / stddev - 1) ** 2)))
            densities.append(score(prediction, y_test)[0]["log_likelihood"])
        found[str(samples)] = {
            "mean_error": float(np.mean(errors)),  # in standard deviations of the prediction
            "stddev_error": float(np.mean(gaps)),  # relative
            "log_likelihood": float(np.mean(densities)),
            "first_seconds": min(first),
            "seconds": min(later),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="+", choices=["points", "stopping", "prediction"])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/defaults.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for what in options.what:
        for name in options.sets:
            found = {"points": points, "stopping": stopping, "prediction": prediction}[what](name)
            # Read anew: another call may have written meanwhile.
            record = json.loads(options.out.read_text()) if options.out.exists() else {}
            record.setdefault(what, {})[name] = found
            options.out.write_text(json.dumps(record, indent=1) + "\n")
            print(what, name, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
