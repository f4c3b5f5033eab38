"""``deepwishart fit --report``: what ``fit_report.html`` says about a model and the rows that were
held out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sklearn.metrics import confusion_matrix

from deepwishart import metrics, plots
from deepwishart._support.files import write_atomically
from deepwishart._support.pages import picture, render
from deepwishart.cli.errors import printable
from deepwishart.cli.explaining import column_groups, relevance_lines
from deepwishart.cli.preparation import Prepared, targets_of
from deepwishart.cli.scores import TRIED, score_table, tried_lines
from deepwishart.estimators import DeepKernelClassifier, number_classes
from deepwishart.estimators.table_model import TableModel

_MOST_ROWS = 500  # to deal values out to
_MOST_CLASSES = 20


def write_fit_report(path: Path, saved: TableModel, rows: Prepared, data: Path) -> None:
    """Write the page."""
    estimator, (X, y) = saved.regressor, rows.test
    classes = isinstance(estimator, DeepKernelClassifier)
    found = estimator.relevance(
        X[:_MOST_ROWS], targets_of(y[:_MOST_ROWS]), groups=column_groups(saved.encoder)
    )
    source = "standard input" if str(data) == "-" else data.name
    page = render(
        "fit_report.html",
        title=printable(f"{', '.join(saved.targets)} from {source}", 120),
        printable=printable,
        estimator=estimator,
        fit=saved.fit,
        classes=classes,
        reports=[saved.fit[name] for name in ("holdout", "cv") if saved.fit[name]],
        score_table=score_table,
        targets=list(_classes(saved, rows) if classes else _numbers(saved, rows)),
        relevance=picture(plots.relevance(found), "relevance of the columns"),
        relevance_lines=relevance_lines(sorted(found, key=lambda one: -(one.importance or 0.0))),
        rows_dealt=min(len(y), _MOST_ROWS),
        tried_headings=TRIED,
        tried=tried_lines(estimator.history_),
        curves=picture(plots.training_curves({"model": estimator.history_}), "training curves"),
        columns=[[column] for column in saved.encoder.columns],
    )
    write_atomically(path, page)


def _classes(saved: TableModel, rows: Prepared) -> Iterator[dict[str, Any]]:
    """Reliability and errors of a classifier."""
    (target,), (X, y), estimator = saved.targets, rows.test, saved.regressor
    assert isinstance(estimator, DeepKernelClassifier)
    classes, prediction = estimator.classes_, estimator.predict_distribution(X)
    curve = metrics.reliability(prediction.probs, number_classes(y[:, 0], classes))
    counts = confusion_matrix(y[:, 0], prediction.mode, labels=classes)
    lines = [[one, *row] for one, row in zip(classes, counts, strict=True)]
    yield {
        "name": target,
        "classes": classes.tolist(),
        "reliability": picture(plots.reliability({"model": curve}), f"reliability of {target}"),
        "confusion": lines if len(classes) <= _MOST_CLASSES else [],
    }


def _numbers(saved: TableModel, rows: Prepared) -> Iterator[dict[str, Any]]:
    """Pictures of a regressor, target by target."""
    X, y = rows.test
    distribution = saved.regressor.predict_distribution(X)
    found = (distribution.mean, *distribution.quantile([0.05, 0.95]))
    for index, target in enumerate(saved.targets):
        mean, lower, upper = (part.reshape(y.shape)[:, index] for part in found)
        truth = y[:, index]
        curve = metrics.calibration_curve(distribution.column(index), truth)
        pictures = {
            "truth": plots.against_truth(mean, lower, upper, truth, target=target),
            "calibration": plots.calibration({"model": curve}, num_rows=len(y)),
        }
        alts = {what: f"{what} of {target}" for what in pictures}
        yield {"name": target, **{k: picture(each, alts[k]) for k, each in pictures.items()}}
