"""How well a model predicts rows it has not seen, beside models that anyone would try first."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Column, Table
from sklearn.base import clone
from sklearn.linear_model import BayesianRidge, LogisticRegression

from deepwishart._support.numbers import plain
from deepwishart.cli.errors import printable
from deepwishart.cli.preparation import Prepared, targets_of
from deepwishart.estimators import (
    DeepKernelClassifier,
    DeepKernelEstimator,
    number_classes,
    score,
    score_constant,
)
from deepwishart.estimators.search import KERNELS
from deepwishart.kernels import make
from deepwishart.likelihoods import NAMES, Gaussian
from deepwishart.metrics import score_classes
from deepwishart.training import History

# By the name in reports: name to show, format (none: as many digits as it takes), and whether the
# best is the highest, 1, or the lowest, -1.
SCORES = {
    "log_likelihood": ("log likelihood per row", ".3f", 1),
    "rmse": ("RMSE", "", -1),
    "crps": ("CRPS", "", -1),
    "coverage90": ("inside the 90% interval", ".1%", 0),
    "log_loss": ("log loss", ".3f", -1),
    "accuracy": ("accuracy", ".1%", 1),
    "brier": ("Brier score", ".3f", -1),
}
TRIED = ("kernel", "likelihood", "layers", "ELBO per row", "seconds")
# By the name of their class, those among which data choose.
_NAMES = {type(make(name)).__name__: name for name in KERNELS}
_NAMES |= {kind.__name__: name for name, kind in NAMES.items()}
# By the name in reports, name to show.
MODELS = {
    "model": "model",
    "majority": "majority-class guess",
    "constant": "constant guess",
    "linear": "linear model",
    "gp": "plain GP",
}
Scores = dict[str, float]


def holdout_report(
    model: DeepKernelEstimator,
    rows: Prepared,
    targets: Sequence[str],
    compare: Collection[str] = (),
) -> dict[str, Any]:
    """Scores for rows held out, of the model and of a guess that ignores their inputs; to compare
    also of a ``linear`` model, and of a ``gp``, the same model with one layer, unless it is that
    one.

    Raises ``FloatingPointError`` for a score that is no finite number.
    """
    score_models = _class_scores if isinstance(model, DeepKernelClassifier) else _number_scores
    found = score_models(model, rows, compare)
    for each in (each for models in found.values() for each in models):
        for key, value in each.items():
            if not math.isfinite(value):
                raise FloatingPointError(f"{SCORES[key][0]} is not finite.")
    by_target = {
        name: {which: scores[index] for which, scores in found.items()}
        for index, name in enumerate(targets)
    }
    return {"rows": len(rows.test[1]), "split": rows.split, "targets": by_target}


def _number_scores(model: Any, rows: Prepared, compare: Collection[str]) -> dict[str, list[Scores]]:
    (X, y), (X_test, y_test) = rows.train, rows.test
    prediction = model.predict_distribution(X_test)
    found = {"model": score(prediction, y_test), "constant": score_constant(y, y_test)}
    if "linear" in compare:
        known, new = (model._scaled.inputs.forward(each.to_numpy()) for each in (X, X_test))
        scaling = prediction.scaling
        fitted = [
            BayesianRidge().fit(known, each).predict(new, return_std=True)
            for each in scaling.forward(y).T
        ]
        mean, stddev = (np.stack(part, 1) for part in zip(*fitted, strict=True))
        found["linear"] = score((scaling.inverse(mean), stddev * scaling.scale), y_test)
    chosen = model.likelihood == "auto" and not isinstance(model.model_.likelihood, Gaussian)
    if "gp" in compare and (model.model_.depth != 1 or chosen):
        found["gp"] = score(_with_one_layer(model, rows).predict_distribution(X_test), y_test)
    return found


def _class_scores(model: Any, rows: Prepared, compare: Collection[str]) -> dict[str, list[Scores]]:
    (X, labels), (X_test, truth) = rows.train, rows.test
    counts = np.bincount(number_classes(labels[:, 0], model.classes_))
    said = {
        "model": model.predict_log_proba(X_test),
        "majority": np.log(counts / counts.sum()) + np.zeros((len(truth), 1)),
    }
    if "linear" in compare:
        known, new = (model._scaled.inputs.forward(each.to_numpy()) for each in (X, X_test))
        fitted = LogisticRegression(max_iter=1000).fit(known, labels[:, 0])
        said["linear"] = fitted.predict_log_proba(new)
    if "gp" in compare and model.model_.depth != 1:
        said["gp"] = _with_one_layer(model, rows).predict_log_proba(X_test)
    y = number_classes(truth[:, 0], model.classes_)
    return {which: [score_classes(log_probs, y)] for which, log_probs in said.items()}


def _with_one_layer(model: DeepKernelEstimator, rows: Prepared) -> Any:
    """A plain GP, and of the kinds of noise among which data choose, the constant one."""
    X, y = rows.train
    one: Any = clone(model).set_params(depth=1, checkpoint_dir=None, verbose=0)
    return one.fit(X, targets_of(y))


def cross_validation(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    r"""Means of hold-out reports over K folds, with standard errors :math:`s / \sqrt K`."""

    def over_folds(*found: Any) -> Any:
        if isinstance(found[0], dict):
            return {key: over_folds(*(each[key] for each in found)) for key in found[0]}
        error = np.std(found, ddof=1) / math.sqrt(len(found))
        return {"mean": float(np.mean(found)), "standard_error": float(error)}

    rows = sum(report["rows"] for report in reports)
    targets = over_folds(*(report["targets"] for report in reports))
    split = reports[0]["split"]
    return {"folds": len(reports), "rows": rows, "split": split, "targets": targets}


def score_table(scores: Mapping[str, Any]) -> tuple[list[str], list[list[str]], list[int | None]]:
    """Models, lines of the scores of each with their labels, and the place of the best in each."""
    models = [scores[which] for which in MODELS if which in scores]
    lines, best = [], []
    for key, (label, form, sign) in SCORES.items():
        if key in scores["model"]:
            values = [each[key] for each in models]
            lines.append([label, *(_show(value, form) for value in values)])
            means = [each["mean"] if isinstance(each, dict) else each for each in values]
            best.append(1 + int(np.argmax(sign * np.array(means, dtype=float))) if sign else None)
    return [label for which, label in MODELS.items() if which in scores], lines, best


def tried_lines(history: History) -> list[list[str]]:
    """The models that were compared, if several were, as texts under the headings ``TRIED``."""
    return [
        [
            *(_NAMES.get(each[part], each[part]) for part in ("kernel", "likelihood")),
            str(each["depth"]),
            f"{each['elbo']:.3f} ± {each['standard_error']:.3f}",
            f"{each['seconds']:.1f}",
        ]
        for each in history.tried * (len(history.tried) > 1)
    ]


def _show(value: Any, form: str) -> str:
    """A score, or its mean over folds with the standard error."""
    if isinstance(value, dict):
        error = value["standard_error"]
        return f"{_show(value['mean'], form)} ± {format(error, form) if form else plain(error, 2)}"
    return format(value, form) if form else plain(value)


def table_of(
    lines: Iterable[Sequence[str]], first: str, *numbers: str, title: str | None = None
) -> Table:
    """Lines as a table for the terminal, with headings; numbers are on the right."""
    headings = (Column(heading, justify="right") for heading in numbers)
    table = Table(first, *headings, title=title, title_justify="left")
    for line in lines:
        table.add_row(*map(escape, line))  # names come from tables
    return table


def report_tables(*reports: dict[str, Any] | None) -> Iterator[Table]:
    """Reports on rows held out, or of a cross-validation, as one table per target."""
    for report in (each for each in reports if each is not None):
        rows, folds = f"{report['rows']:,} rows", report.get("folds")
        what = f"{rows}, cross-validated in {folds} parts" if folds else f"{rows} held out"
        what += f", {report['split']}" if report.get("split") else ""
        for name, scores in report["targets"].items():
            models, lines, _ = score_table(scores)
            yield table_of(lines, "", *models, title=escape(f"{printable(name, 60)}: {what}"))
