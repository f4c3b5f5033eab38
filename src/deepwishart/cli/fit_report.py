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
from deepwishart.cli.directory import SavedModel
from deepwishart.cli.errors import printable
from deepwishart.cli.explaining import column_groups, relevance_lines
from deepwishart.cli.preparation import Split, targets_of
from deepwishart.cli.scores import known_models, reliability_of, rows_of, score_lines
from deepwishart.estimators import DeepKernelClassifier
from deepwishart.likelihoods import Gaussian, HeteroscedasticGaussian

__all__ = ["write_fit_report"]

_MOST_ROWS = 500  # to deal values out to
_MOST_CLASSES = 20


def write_fit_report(path: Path, saved: SavedModel, split: Split, data: Path) -> None:
    """Write the page."""
    estimator, fit, model = saved.regressor, saved.fit, saved.regressor.model_
    classes = getattr(estimator, "classes_", None)
    target = ", ".join(printable(each, 60) for each in saved.targets)
    source = "standard input" if str(data) == "-" else printable(data.name, 60)
    what = "one layer" if model.depth == 1 else f"{model.depth} layers"
    if model.depth == 1 and isinstance(model.likelihood, Gaussian):
        what += ", which is a plain GP"
    elif isinstance(model.likelihood, HeteroscedasticGaussian):
        what += ", with noise that depends on the inputs"
    X, y = split.test[0][:_MOST_ROWS], split.test[1][:_MOST_ROWS]
    found = estimator.relevance(X, targets_of(y), groups=column_groups(saved.encoder))
    by_importance = sorted(found, key=lambda one: -(one.importance or 0.0))
    page = render(
        "fit_report.html",
        title=f"{target} from {source}",
        what=what,
        structure=f"{estimator.process}, {estimator.kernel} kernel",
        inducing=estimator.n_inducing_,
        steps=estimator.n_iter_,
        rows=fit["rows"],
        rows_held_out=len(split.test[1]),
        left_out=fit["left_out"],
        inputs=estimator.n_features_in_,
        elbo=estimator.elbo_,
        classes=None if classes is None else [printable(str(each), 30) for each in classes],
        targets=list((_numbers if classes is None else _classes)(saved, split)),
        relevance=picture(plots.relevance(found), "relevance of the columns"),
        relevance_lines=relevance_lines(by_importance),
        rows_dealt=len(y),
        curves=picture(plots.training_curves({"model": estimator.history_}), "training curves"),
        noise=any(estimator.history_.noise),
        columns=[[printable(str(column), 120)] for column in saved.encoder.columns],
    )
    write_atomically(path, page)


def _classes(saved: SavedModel, split: Split) -> Iterator[dict[str, Any]]:
    """Scores, reliability and errors of a classifier."""
    (target,), (X, y), estimator = saved.targets, split.test, saved.regressor
    assert isinstance(estimator, DeepKernelClassifier)
    name, classes = printable(saved.targets[0], 60), estimator.classes_
    figure = plots.reliability({"model": reliability_of(saved.fit["holdout"])})
    counts = confusion_matrix(y[:, 0], estimator.predict(X), labels=classes)
    pairs = zip(classes, counts if len(classes) <= _MOST_CLASSES else [], strict=False)
    yield {
        "name": name,
        "scores": _scores(saved.fit, target),
        "reliability": picture(figure, f"reliability of {name}"),
        "confusion": [[printable(str(one), 30), *map("{:,}".format, row)] for one, row in pairs],
    }


def _numbers(saved: SavedModel, split: Split) -> Iterator[dict[str, Any]]:
    """Scores and pictures of a regressor, target by target."""
    X, y = split.test
    distribution = saved.regressor.predict_distribution(X)
    found = (*distribution.mean_and_stddev(), *distribution.quantile([0.05, 0.95]))
    for index, target in enumerate(saved.targets):
        mean, stddev, lower, upper = (part.reshape(y.shape)[:, index] for part in found)
        truth, name = y[:, index], printable(target, 60)
        curve = metrics.calibration_curve(distribution.column(index), truth)
        pictures = {
            "truth": plots.against_truth(mean, lower, upper, truth, target=target),
            "calibration": plots.calibration({"model": curve}, num_rows=len(y)),
            "residuals": plots.residuals(mean, stddev, truth, target=target),
        }
        yield {
            "name": name,
            "scores": _scores(saved.fit, target),
            **{what: picture(each, f"{what} of {name}") for what, each in pictures.items()},
        }


def _scores(fit: dict[str, Any], target: str) -> list[tuple[str, list[str], Any, Any]]:
    """Tables of the scores of several models: heading, models, lines, and the best of each."""
    reports = {f"On {fit['holdout']['rows']:,} rows held out": fit["holdout"]}
    if fit["cv"]:
        parts = f"Cross-validated in {fit['cv']['folds']} parts"
        reports[f"{parts}, mean and standard error over the parts"] = fit["cv"]
    tables = []
    for heading, report in reports.items():
        models = known_models(report["targets"][target])
        lines = score_lines(rows_of(report["targets"][target]), models.values())
        tables.append((heading, list(models), *lines))
    return tables
