"""How well a model predicts rows it has not seen, beside models that anyone would try first."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from rich.markup import escape
from rich.table import Column, Table
from sklearn.base import clone
from sklearn.linear_model import BayesianRidge, LogisticRegression

from deepwishart._support.numbers import plain
from deepwishart.cli.errors import plain_warnings, printable
from deepwishart.cli.preparation import Split, targets_of
from deepwishart.estimators import (
    DeepKernelClassifier,
    DeepKernelEstimator,
    number_classes,
    score,
    score_constant,
    score_gaussian,
)
from deepwishart.likelihoods import Gaussian
from deepwishart.metrics import Reliability, reliability, score_classes

__all__ = ["MODELS", "check_report", "cross_validation", "holdout_report", "report_tables"]

# Name in reports, name to show, format (none: as many digits as it takes), and whether the best is
# the highest, 1, or the lowest, -1.
Row = tuple[str, str, str, int]
ROWS: tuple[Row, ...] = (
    ("log_likelihood", "log likelihood per row", ".3f", 1),
    ("rmse", "RMSE", "", -1),
    ("crps", "CRPS", "", -1),
    ("coverage90", "inside the 90% interval", ".1%", 0),
)
CLASS_ROWS: tuple[Row, ...] = (
    ("log_loss", "log loss", ".3f", -1),
    ("accuracy", "accuracy", ".1%", 1),
    ("brier", "Brier score", ".3f", -1),
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
    model: DeepKernelEstimator,
    split: Split,
    targets: Sequence[str],
    *,
    linear: bool = False,
    one_layer: bool = False,
) -> dict[str, Any]:
    """Scores for rows held out, of the model and of a guess that ignores their inputs; on request
    of a linear model, and of the same model with one layer unless it is that one."""
    score_models = _class_scores if isinstance(model, DeepKernelClassifier) else _number_scores
    with plain_warnings():
        found, more = score_models(model, split, linear, one_layer)
    by_target = {
        name: {which: scores[index] for which, scores in found.items()}
        for index, name in enumerate(targets)
    }
    report = {"rows": len(split.test[1]), "targets": by_target, **more}
    check_report(report)
    return report


_Found = tuple[dict[str, list[dict[str, float]]], dict[str, Any]]


def _number_scores(model: Any, split: Split, linear: bool, one_layer: bool) -> _Found:
    (X, y), (X_test, y_test) = split.train, split.test
    prediction = model.predict_distribution(X_test)
    found = {"model": score(prediction, y_test), "constant": score_constant(prediction, y_test, y)}
    if linear:
        rows, new = (model._scaled.inputs.forward(each.to_numpy()) for each in (X, X_test))
        columns = model._scaled.targets.forward(y).T
        fitted = [BayesianRidge().fit(rows, each).predict(new, return_std=True) for each in columns]
        mean, stddev = (torch.as_tensor(np.stack(part, 1)) for part in zip(*fitted, strict=True))
        found["linear"] = score_gaussian(mean, stddev, prediction, y_test)
    chosen = model.likelihood == "auto" and not isinstance(model.model_.likelihood, Gaussian)
    if one_layer and (model.model_.depth != 1 or chosen):
        found["gp"] = score(_with_one_layer(model, split).predict_distribution(X_test), y_test)
    return found, {}


def _class_scores(model: Any, split: Split, linear: bool, one_layer: bool) -> _Found:
    X, labels, X_test = split.train[0], split.train[1][:, 0], split.test[0]
    y = number_classes(split.test[1][:, 0], model.classes_)
    prediction = model.predict_distribution(X_test)
    counts = np.bincount(number_classes(labels, model.classes_))
    said = {
        "model": prediction.log_probs,
        "majority": np.log(counts / counts.sum()) + np.zeros((len(y), 1)),
    }
    if linear:
        rows, new = (model._scaled.inputs.forward(each.to_numpy()) for each in (X, X_test))
        fitted = LogisticRegression(max_iter=1000).fit(rows, labels)
        said["linear"] = fitted.predict_log_proba(new)
    if one_layer and model.model_.depth != 1:
        said["gp"] = _with_one_layer(model, split).predict_log_proba(X_test)
    curve = reliability(prediction.probs, y)._asdict()
    return (
        {which: [score_classes(log_probs, y)] for which, log_probs in said.items()},
        {"reliability": {name: values.tolist() for name, values in curve.items()}},
    )


def _with_one_layer(model: DeepKernelEstimator, split: Split) -> Any:
    """A plain GP, and of the kinds of noise among which data choose, the constant one."""
    X, y = split.train
    one: Any = clone(model).set_params(depth=1, checkpoint_dir=None, verbose=0)
    return one.fit(X, targets_of(y))


def cross_validation(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    r"""Means of hold-out reports over K folds, with standard errors :math:`s / \sqrt K`."""
    targets: dict[str, Any] = {name: {} for name in reports[0]["targets"]}
    for name, models in reports[0]["targets"].items():
        for which in models:
            found = [report["targets"][name][which] for report in reports]
            targets[name][which] = {
                key: _over_folds([scores[key] for scores in found]) for key, *_ in rows_of(models)
            }
    rows = sum(report["rows"] for report in reports)
    return {"folds": len(reports), "rows": rows, "targets": targets}


def _over_folds(values: list[float]) -> dict[str, float]:
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    return {"mean": float(np.mean(values)), "standard_error": float(error)}


def check_report(report: Any) -> None:
    """Raise ``FloatingPointError`` for a report with a score that is no finite number.

    What is no report at all raises ``TypeError`` or ``LookupError``.
    """
    for name, scores in report["targets"].items():
        for guess in ("model", "constant" if rows_of(scores) is ROWS else "majority"):
            for key, label, *_ in rows_of(scores):
                if not math.isfinite(scores[guess][key]):
                    raise FloatingPointError(f"{label} of {name!r} is not finite.")
    format(report["rows"], "d")
    if "reliability" in report:
        reliability_of(report)


def rows_of(scores: Mapping[str, Any]) -> tuple[Row, ...]:
    """The scores that models of numbers, or of classes, have."""
    return CLASS_ROWS if "log_loss" in scores["model"] else ROWS


def reliability_of(report: dict[str, Any]) -> Reliability:
    """The curve that a report holds; anything else raises ``LookupError`` or ``ValueError``."""
    said, happened, number = (np.array(report["reliability"][name]) for name in Reliability._fields)
    if not (said.ndim == 1 and said.shape == happened.shape == number.shape and len(said)):
        raise ValueError("reliability has columns of other lengths than one")
    return Reliability(said.astype(float), happened.astype(float), number.astype(int))


def score_lines(
    rows: Iterable[Row], models: Collection[Mapping[str, Any]]
) -> tuple[list[list[str]], list[int | None]]:
    """Label and texts of each score, a model after the other, and the place of the best."""
    lines, best = [], []
    for key, label, form, sign in rows:
        values = [scores[key] for scores in models]
        lines.append([label, *(_show(value, form) for value in values)])
        means = (each["mean"] if isinstance(each, dict) else each for each in values)
        goodness = [-math.inf if mean is None else sign * mean for mean in means]
        best.append(1 + int(np.argmax(goodness)) if sign else None)
    return lines, best


def _show(value: Any, form: str) -> str:
    """A score, if there is one, or its mean over folds with the standard error."""
    if isinstance(value, dict):
        error = value["standard_error"]
        return f"{_show(value['mean'], form)} ± {format(error, form) if form else plain(error, 2)}"
    return "" if value is None else format(value, form) if form else plain(value)


def known_models(scores: Mapping[str, Any]) -> dict[str, Any]:
    """The scores of the models that there are, by the names to show."""
    return {label: scores[which] for which, label in MODELS.items() if which in scores}


def table_of(
    lines: Iterable[Sequence[str]], first: str | Column, *numbers: str, title: str | None = None
) -> Table:
    """Lines as a table for the terminal, with headings; numbers are on the right."""
    headings = (Column(heading, justify="right") for heading in numbers)
    table = Table(first, *headings, title=title, title_justify="left")
    for line in lines:
        table.add_row(*line)
    return table


def report_tables(*reports: dict[str, Any] | None) -> Iterator[Table]:
    """Reports on rows held out, or of a cross-validation, as one table per target; then what was
    said of classes and what happened, if they are about those."""
    for report in reports:
        if report is None:
            continue
        rows, folds = f"{report['rows']:,} rows", report.get("folds")
        what = f"{rows}, cross-validated in {folds} parts" if folds else f"{rows} held out"
        for name, scores in report["targets"].items():
            models = known_models(scores)
            lines, _ = score_lines(rows_of(scores), models.values())
            yield table_of(lines, "", *models, title=escape(f"{printable(name, 60)}: {what}"))
        if "reliability" in report:
            curve = zip(*reliability_of(report), strict=True)
            lines = [[f"{said:.1%}", f"{true:.1%}", f"{number:,}"] for said, true, number in curve]
            headings = (Column("said", justify="right"), "happened", "predictions")
            yield table_of(lines, *headings, title="probabilities of classes")
