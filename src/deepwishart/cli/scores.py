"""How well a model predicts rows it has not seen, beside a guess that ignores the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from deepwishart import metrics
from deepwishart.estimators import RescaledPredictive, Standardiser

__all__ = ["holdout_report", "report_tables", "score"]

# Name in reports, name to show, format.
ROWS = (
    ("log_likelihood", "log likelihood per row", ".3f"),
    ("rmse", "RMSE", ".4g"),
    ("crps", "CRPS", ".4g"),
    ("coverage90", "inside the 90% interval", ".1%"),
)


class _Marginal:
    """One target column of a prediction."""

    def __init__(self, prediction: RescaledPredictive, column: int) -> None:
        self._prediction = prediction
        self._columns = slice(column, column + 1)

    def components(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for mean, std in self._prediction.components():
            yield mean[..., self._columns], std[..., self._columns]


def score(prediction: Any, y: np.ndarray) -> dict[str, float]:
    """Log likelihood, RMSE, CRPS and coverage of the 90% interval, in units of ``y``."""
    return {
        "log_likelihood": metrics.log_likelihood(prediction, y),
        "rmse": metrics.rmse(prediction, y),
        "crps": metrics.crps(prediction, y),
        "coverage90": metrics.interval_coverage(prediction, y, 0.9),
    }


def holdout_report(
    prediction: RescaledPredictive,
    y_train: np.ndarray,
    y_test: np.ndarray,
    targets: Sequence[str],
) -> dict[str, Any]:
    """Scores of a model, and of a Gaussian with mean and standard deviation of the training rows.

    Args:
        prediction: for the rows held out.
        y_train: targets of the training rows, ``(N, D)``.
        y_test: targets of the rows held out, ``(M, D)``.
        targets: names of the columns.
    """
    report: dict[str, Any] = {"rows": len(y_test), "targets": {}}
    scaling = Standardiser.fit(y_train)
    centre = scaling.inverse(np.zeros(y_test.shape))
    spread = np.broadcast_to(scaling.scale, y_test.shape)
    for column, name in enumerate(targets):
        only = slice(column, column + 1)
        truth, guess = y_test[:, only], (centre[:, only], spread[:, only])
        report["targets"][name] = {
            "model": score(_Marginal(prediction, column), truth),
            "constant": score(guess, truth),
        }
    return report


def report_tables(report: dict[str, Any]) -> Iterator[Table]:
    """A hold-out report as one table per target."""
    for name, scores in report["targets"].items():
        table = Table(title=f"{name}: {report['rows']} rows held out", title_justify="left")
        table.add_column("")
        table.add_column("model", justify="right")
        table.add_column("constant guess", justify="right")
        for key, label, form in ROWS:
            shown = [format(scores[which][key], form) for which in ("model", "constant")]
            table.add_row(label, *shown)
        yield table
