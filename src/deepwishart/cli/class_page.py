"""What pages show of a classifier: its scores, whether to trust its probabilities, its errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from deepwishart import plots
from deepwishart._support.pages import picture, table
from deepwishart.cli.class_scores import reliability_of
from deepwishart.cli.errors import printable
from deepwishart.pipeline import number_classes

__all__ = ["CLASS_SCORES", "RELIABILITY", "confusion_table", "reliability_picture"]

_MOST_CLASSES = 20
RELIABILITY = (
    "How often classes that were said to have some probability were the true ones. Points of a "
    "calibrated model lie on the diagonal, nineteen in twenty of them within the grey bars; larger "
    "points have more predictions behind them."
)
CLASS_SCORES = (
    "Log loss is in nats per row; it and the Brier score, half the squared distance between "
    "probabilities and truth, are better the lower they are. The majority-class guess gives every "
    "row the frequencies of the classes among the training rows; the linear model is logistic "
    "regression; a plain GP is the same model with one layer, and beside one of several layers it "
    "has a column of its own. One division of the rows: small differences mean little."
)


def reliability_picture(report: dict[str, Any], what: str) -> str:
    """The reliability diagram of a report."""
    return picture(
        plots.reliability({"model": reliability_of(report)}),
        RELIABILITY,
        f"reliability of {what}",
    )


def confusion_table(labels: np.ndarray, guesses: np.ndarray, classes: np.ndarray) -> Iterator[str]:
    """How many held-out rows of each class were taken for which."""
    if len(classes) > _MOST_CLASSES:
        return
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (number_classes(labels, classes), number_classes(guesses, classes)), 1)
    names = [printable(str(label), 30) for label in classes]
    rows = [
        [name, *(f"{count:,}" for count in row)] for name, row in zip(names, counts, strict=True)
    ]
    yield "<p>Rows of each class, by the class they were taken for:</p>"
    yield table(["true class", *names], rows, list(range(1, len(classes) + 1)))
