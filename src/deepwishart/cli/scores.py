"""How well a model predicts rows it has not seen, beside guesses that are easier to make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Column, Table

from deepwishart._support.numbers import plain
from deepwishart.cli.class_scores import reliability_of
from deepwishart.cli.errors import printable
from deepwishart.pipeline import RescaledPredictive, score, score_constant

__all__ = ["MODELS", "check_report", "cross_validation", "holdout_report", "report_tables", "show"]

# Name in reports, name to show, format; none: as many digits as it takes.
ROWS = (
    ("log_likelihood", "log likelihood per row", ".3f"),
    ("rmse", "RMSE", ""),
    ("crps", "CRPS", ""),
    ("coverage90", "inside the 90% interval", ".1%"),
)
CLASS_ROWS = (
    ("log_loss", "log loss", ".3f"),
    ("accuracy", "accuracy", ".1%"),
    ("brier", "Brier score", ".3f"),
)
# Name in reports, name to show.
MODELS = {
    "model": "model",
    "majority": "majority-class guess",
    "constant": "constant guess",
    "linear": "linear model",
    "gp": "plain GP",
}


def holdout_report(
    prediction: RescaledPredictive,
    y: np.ndarray,
    targets: Sequence[str],
    others: Mapping[str, list[dict[str, float]]] | None = None,
    train: np.ndarray | None = None,
) -> dict[str, Any]:
    """Scores of a prediction for rows held out, and of a guess that ignores their inputs.

    ``others`` has the scores of further models, one entry for each target; ``train`` are the
    targets that were trained on.
    """
    found = {"model": score(prediction, y), "constant": score_constant(prediction, y, train)}
    found |= others or {}
    by_target = {
        name: {which: scores[index] for which, scores in found.items()}
        for index, name in enumerate(targets)
    }
    return {"rows": len(y), "targets": by_target}


def cross_validation(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    r"""Means of hold-out reports over K folds, with standard errors :math:`s / \sqrt K`."""
    targets: dict[str, Any] = {}
    for name, models in reports[0]["targets"].items():
        targets[name] = {}
        for which in models:
            each = {
                key: [report["targets"][name][which][key] for report in reports]
                for key, _, _ in rows_of(models)
            }
            targets[name][which] = {
                key: {
                    "mean": float(np.mean(values)),
                    "standard_error": float(np.std(values, ddof=1) / math.sqrt(len(values))),
                }
                for key, values in each.items()
            }
    return {
        "folds": len(reports),
        "rows": sum(report["rows"] for report in reports),
        "targets": targets,
    }


def check_report(report: Any) -> None:
    """Raise ``FloatingPointError`` for a report with a score that is no finite number.

    What is no report at all raises ``TypeError`` or ``LookupError``.
    """
    for name, scores in report["targets"].items():
        for guess in ("model", "constant" if rows_of(scores) is ROWS else "majority"):
            for key, label, _ in rows_of(scores):
                if not math.isfinite(scores[guess][key]):
                    raise FloatingPointError(f"{label} of {name!r} is not finite.")
    format(report["rows"], "d")
    if "reliability" in report:
        reliability_of(report)


def rows_of(scores: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """The scores that models of numbers, or of classes, have."""
    return CLASS_ROWS if "log_loss" in scores["model"] else ROWS


def show(value: Any, form: str) -> str:
    """A score, or its mean over folds with the standard error."""
    if isinstance(value, dict):
        error = value["standard_error"]
        return f"{show(value['mean'], form)} ± {format(error, form) if form else plain(error, 2)}"
    return format(value, form) if form else plain(value)


def report_tables(report: dict[str, Any] | None) -> Iterator[Table]:
    """A hold-out report, or that of a cross-validation, as one table per target."""
    if report is None:
        return
    rows = f"{report['rows']:,} rows"
    folds = report.get("folds")
    what = f"{rows}, cross-validated in {folds} parts" if folds else f"{rows} held out"
    for name, scores in report["targets"].items():
        known = {which: label for which, label in MODELS.items() if which in scores}
        headings = (Column(label, justify="right") for label in known.values())
        title = escape(f"{printable(name, 60)}: {what}")
        table = Table("", *headings, title=title, title_justify="left")
        for key, label, form in rows_of(scores):
            table.add_row(label, *(show(scores[which][key], form) for which in known))
        yield table
