"""Accuracy and log loss of the classifier beside scikit-learn's, on three of its data sets.

    OMP_NUM_THREADS=1 python benchmarks/classification.py

Five stratified folds each of breast cancer (569 rows, 30 inputs, 2 classes), wine recognition
(178, 13, 3) and digits (1,797, 64, 10). All models see the same folds and come with their
defaults, except that GaussianProcessClassifier, whose default kernel is fixed, gets standardised
inputs and learns height and length scale of its kernel. Every fit is one line of the results file;
fits that it holds already are not repeated. CPU seconds are of one thread, training only.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deepwishart.estimators import DeepKernelClassifier

RESULTS = Path(__file__).parent / "results" / "classification.jsonl"
DATA = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
FOLDS = 5


def gaussian_process(num_features: int) -> object:
    kernel = ConstantKernel(1.0) * RBF(num_features**0.5, (1e-1, 1e3))
    return make_pipeline(StandardScaler(), GaussianProcessClassifier(kernel, random_state=0))


MODELS = {
    "DeepKernelClassifier": lambda features: DeepKernelClassifier(random_state=0),
    "HistGradientBoosting": lambda features: HistGradientBoostingClassifier(random_state=0),
    "GaussianProcess": gaussian_process,
    "ours, depth 1": lambda features: DeepKernelClassifier(depth=1, random_state=0),
    "ours, depth 1, ard": lambda features: DeepKernelClassifier(depth=1, ard=True, random_state=0),
}


def run(data: str, model: str, fold: int) -> dict[str, float | str]:
    """One fit and its scores on the rows that it has not seen."""
    X, y = DATA[data](return_X_y=True)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y)
    train, test = list(folds)[fold]
    classifier = MODELS[model](X.shape[1])
    start = time.process_time()
    classifier.fit(X[train], y[train])
    seconds = time.process_time() - start
    probabilities = classifier.predict_proba(X[test])
    return {
        "data": data,
        "model": model,
        "fold": fold,
        "log_loss": log_loss(y[test], probabilities),
        "accuracy": accuracy_score(y[test], probabilities.argmax(1)),
        "cpu_seconds": seconds,
    }


def report(results: list[dict[str, float | str]]) -> None:
    """Mean and standard error over folds, one line for each model and data set."""
    print(f"{'data':14} {'model':22} {'log loss':>17} {'accuracy':>17} {'CPU s':>7} {'folds':>5}")
    for data in DATA:
        for model in MODELS:
            rows = [row for row in results if (row["data"], row["model"]) == (data, model)]
            if not rows:
                continue
            texts = []
            for name in ("log_loss", "accuracy"):
                values = np.array([row[name] for row in rows])
                error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
                texts.append(f"{values.mean():.4f} +- {error:.4f}")
            seconds = np.mean([row["cpu_seconds"] for row in rows])
            print(
                f"{data:14} {model:22} {texts[0]:>17} {texts[1]:>17} {seconds:7.1f} {len(rows):5}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--report", action="store_true", help="print what is in the file")
    parser.add_argument("--folds", type=int, default=FOLDS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = arguments.out.read_text().splitlines() if arguments.out.exists() else []
    results = [json.loads(line) for line in lines]
    done = {(row["data"], row["model"], row["fold"]) for row in results}
    for data in arguments.data if not arguments.report else ():
        for model in arguments.models:
            for fold in range(arguments.folds):
                if (data, model, fold) in done:
                    continue
                results.append(run(data, model, fold))
                with open(arguments.out, "a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    report(results)


if __name__ == "__main__":
    main()
