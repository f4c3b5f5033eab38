"""How well a model predicts rows it has not seen, beside a guess that ignores the inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Column, Table

from deepwishart.cli.errors import printable
from deepwishart.pipeline import RescaledPredictive, score, score_constant

__all__ = ["check_report", "holdout_report", "report_tables"]

# Name in reports, name to show, format.
ROWS = (
    ("log_likelihood", "log likelihood per row", ".3f"),
    ("rmse", "RMSE", ".4g"),
    ("crps", "CRPS", ".4g"),
    ("coverage90", "inside the 90% interval", ".1%"),
)


def holdout_report(
    prediction: RescaledPredictive, y: np.ndarray, targets: Sequence[str]
) -> dict[str, Any]:
    """Scores of a prediction for rows held out, and of a guess that ignores their inputs."""
    pairs = zip(targets, score(prediction, y), score_constant(prediction, y), strict=True)
    found = {name: {"model": model, "constant": constant} for name, model, constant in pairs}
    return {"rows": len(y), "targets": found}


def check_report(report: Any) -> None:
    """Raise ``FloatingPointError`` for a report with a score that is no finite number.

    What is no report at all raises ``TypeError`` or ``LookupError``.
    """
    for name, scores in report["targets"].items():
        for guess in ("model", "constant"):
            for key, label, _ in ROWS:
                if not math.isfinite(scores[guess][key]):
                    raise FloatingPointError(f"{label} of {name!r} is not finite.")
    format(report["rows"], "d")


def report_tables(report: dict[str, Any] | None) -> Iterator[Table]:
    """A hold-out report as one table per target."""
    for name, scores in report["targets"].items() if report else ():
        title = f"{printable(name, 60)}: {report['rows']} rows held out"  # type: ignore[index]
        headings = (Column(name, justify="right") for name in ("model", "constant guess"))
        table = Table("", *headings, title=escape(title), title_justify="left")
        for key, label, form in ROWS:
            shown = [format(scores[which][key], form) for which in ("model", "constant")]
            table.add_row(label, *shown)
        yield table
