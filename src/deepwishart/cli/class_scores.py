"""How well a classifier predicts rows it has not seen, beside guesses that are easier to make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Column, Table
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from deepwishart.pipeline import Reliability, number_classes, reliability, score_classes

if TYPE_CHECKING:
    from deepwishart.cli.preparation import Rows
    from deepwishart.estimators import DeepKernelClassifier

__all__ = ["class_report", "reliability_of", "reliability_tables"]


def class_report(
    classifier: DeepKernelClassifier,
    train: Rows,
    test: Rows,
    target: str,
    *,
    linear: bool = False,
    plain: bool = False,
) -> dict[str, Any]:
    """Scores for rows held out, of the classifier and of a guess that says of every row how
    frequent classes are; on request of logistic regression, and of the same model with one
    layer."""
    X, labels = test[0], test[1][:, 0]
    y = number_classes(labels, classifier.classes_)
    prediction = classifier.predict_distribution(X)
    counts = np.bincount(number_classes(train[1][:, 0], classifier.classes_))
    guess = np.log(counts / counts.sum()) + np.zeros((len(y), 1))
    found = {"model": score_classes(prediction.log_probs, y), "majority": score_classes(guess, y)}
    if linear:
        scaling = classifier._scaled.inputs
        inputs = [scaling.forward(part.to_numpy()) for part in (train[0], X)]
        fitted = LogisticRegression(max_iter=1000).fit(inputs[0], train[1][:, 0])
        found["linear"] = score_classes(fitted.predict_log_proba(inputs[1]), y)
    if plain and classifier.depth != 1:
        one: Any = clone(classifier).set_params(depth=1, checkpoint_dir=None, verbose=0)
        log_probs = one.fit(train[0], train[1][:, 0]).predict_log_proba(X)
        found["gp"] = score_classes(log_probs, y)
    curve = reliability(prediction.probs, y)
    plain_curve = {name: values.tolist() for name, values in curve._asdict().items()}
    return {"rows": len(y), "targets": {target: found}, "reliability": plain_curve}


def reliability_of(report: dict[str, Any]) -> Reliability:
    """The curve that a report holds; anything else raises ``LookupError`` or ``ValueError``."""
    said, happened, number = (np.array(report["reliability"][name]) for name in Reliability._fields)
    if not (said.ndim == 1 and said.shape == happened.shape == number.shape and len(said)):
        raise ValueError("reliability has columns of other lengths than one")
    return Reliability(said.astype(float), happened.astype(float), number.astype(int))


def reliability_tables(report: dict[str, Any] | None) -> Iterator[Table]:
    """What was said and what happened, if the report is one of classes."""
    if report is None or "reliability" not in report:
        return
    headings = ("said", "happened", "predictions")
    table = Table(
        *(Column(heading, justify="right") for heading in headings),
        title="probabilities of classes",
        title_justify="left",
    )
    for said, happened, number in zip(*reliability_of(report), strict=True):
        table.add_row(f"{said:.1%}", f"{happened:.1%}", f"{number:,}")
    yield table
