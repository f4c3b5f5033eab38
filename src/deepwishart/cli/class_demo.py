"""``deepwishart demo --classification``: tumours told apart, beside models that everyone knows."""

from __future__ import annotations

import html
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Column, Table
from sklearn.datasets import load_breast_cancer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deepwishart import plots
from deepwishart._support.files import write_atomically
from deepwishart._support.machine import threads
from deepwishart._support.pages import make_page, picture, table
from deepwishart.cli.class_page import RELIABILITY, confusion_table
from deepwishart.cli.scores import CLASS_ROWS
from deepwishart.estimators import DeepKernelClassifier
from deepwishart.pipeline import number_classes, reliability, score_classes

if TYPE_CHECKING:
    from sklearn.base import ClassifierMixin

__all__ = ["run_class_demo"]

TITLE = "Benign or malignant: a deep Wishart process beside logistic regression and a GP"
DEEP = "deep Wishart"
_NOTE = (
    "Log loss (nats per row) and the Brier score are better the lower they are; the best of a row "
    "is bold. The guess gives every patient the frequencies of the classes. This is one division "
    "of the rows: small differences do not say which model is better."
)


def run_class_demo(out: Path, *, quick: bool) -> None:
    """Fit, print scores, write the page."""
    data: Any = load_breast_cancer()
    X, y = data.data, data.target_names[data.target]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    inducing, steps, samples = (20, 20, 20) if quick else (100, 500, 100)
    settings: dict[str, Any] = {"n_inducing": inducing, "max_iter": steps, "random_state": 0}
    deep = DeepKernelClassifier(n_predict_samples=samples, verbose=1, **settings)
    text = (
        "Measurements of cell nuclei from 569 tumours (scikit-learn's breast cancer data): "
        f"{X.shape[1]} numbers in, benign or malignant out. {len(y)} tumours to learn from, "
        f"{len(y_test)} held out; the deep model has 2 layers, {inducing} inducing points and at "
        f"most {steps} steps."
    )
    console = Console(highlight=False)
    console.print(text)
    models, seconds = _others(X.shape[1]) | {DEEP: deep}, {}
    with threads(1):  # matrices this small lose by a second one where cores are busy
        for name, model in models.items():
            began = time.perf_counter()
            model.fit(X, y)
            seconds[name] = time.perf_counter() - began
    numbers = number_classes(y_test, deep.classes_)
    shares = np.bincount(number_classes(y, deep.classes_)) / len(y)
    said = {"majority guess": np.tile(shares, (len(y_test), 1))}
    said |= {name: model.predict_proba(X_test) for name, model in models.items()}
    scores = {
        name: score_classes(np.log(np.maximum(probs, 1e-15)), numbers)
        for name, probs in said.items()
    }
    lines = [
        [label, *(format(each[key], form) for each in scores.values())]
        for key, label, form in CLASS_ROWS
    ]
    times = [f"{seconds[name]:.1f}" if name in seconds else "" for name in scores]
    lines.append(["seconds of training", *times])
    shown = Table("", *(Column(name, justify="right") for name in scores))
    for line in lines:
        shown.add_row(*line)
    console.print(shown)
    best = [_best(scores, key) for key, *_ in CLASS_ROWS]
    curves = {name: reliability(said[name], numbers, 5) for name in models}
    body = [
        f"<p>{html.escape(text)}</p>",
        table(["", *scores], lines, best),
        f"<p>{html.escape(_NOTE)}</p>",
        "<h2>Reliability</h2>",
        picture(plots.reliability(curves), RELIABILITY, "reliability"),
        f"<h2>Errors of the {DEEP} process</h2>",
        *confusion_table(y_test, deep.predict(X_test), deep.classes_),
        "<h2>Training</h2>",
        picture(
            plots.training_curves({DEEP: deep.history_}),
            "The objective of every step (thin) and its running mean (thick).",
            "training",
        ),
    ]
    where = write_atomically(out / "index.html", make_page(TITLE, body))
    console.print(f"page written to {where}", soft_wrap=True, markup=False)


def _others(num_features: int) -> dict[str, ClassifierMixin]:
    kernel = ConstantKernel() * RBF(num_features**0.5, (1e-1, 1e3))
    gp = GaussianProcessClassifier(kernel, random_state=0)
    return {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "plain GP": make_pipeline(StandardScaler(), gp),
    }


def _best(scores: dict[str, dict[str, float]], key: str) -> int:
    """The place of the best model in a line that begins with a label."""
    values = np.array([each[key] for each in scores.values()])
    return 1 + int((values if key == "accuracy" else -values).argmax())
