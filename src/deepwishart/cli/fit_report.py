"""``deepwishart fit --report``: a page about a model and the rows that were held out."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from deepwishart import metrics, plots
from deepwishart._support.files import write_atomically
from deepwishart._support.pages import make_page, picture, table
from deepwishart.cli.directory import SavedModel
from deepwishart.cli.errors import printable
from deepwishart.cli.explaining import column_groups, relevance_lines
from deepwishart.cli.preparation import Split, targets_of
from deepwishart.cli.scores import known_models, reliability_of, rows_of, score_lines
from deepwishart.estimators import DeepKernelClassifier
from deepwishart.estimators.evaluation import TargetColumn
from deepwishart.likelihoods import Gaussian, HeteroscedasticGaussian

__all__ = ["RELIABILITY", "confusion_table", "write_fit_report"]

_MOST_ROWS = 500  # to deal values out to
_MOST_CLASSES = 20
RELIABILITY = (
    "How often classes that were said to have some probability were the true ones. Points of a "
    "calibrated model lie on the diagonal, nineteen in twenty of them within the grey bars; larger "
    "points have more predictions behind them."
)
_CLASS_SCORES = (
    "Log loss is in nats per row; it and the Brier score, half the squared distance between "
    "probabilities and truth, are better the lower they are. The majority-class guess gives every "
    "row the frequencies of the classes among the training rows; the linear model is logistic "
    "regression; a plain GP is the same model with one layer, and beside one of several layers it "
    "has a column of its own. One division of the rows: small differences mean little."
)
_NUMBER_SCORES = (
    "Log likelihood is in nats per row, higher is better; RMSE and CRPS are in units of the "
    "target, lower is better. The constant guess has mean and standard deviation of the "
    "training rows for every row; the linear model is Bayesian linear regression; a plain GP is "
    "the same model with one layer and, unless another was asked for, constant noise; it has a "
    "column of its own where the model is not one itself. "
    "One division of the rows: small differences mean little."
)


def write_fit_report(path: Path, saved: SavedModel, split: Split, data: Path) -> None:
    """Write the page."""
    name = "standard input" if str(data) == "-" else data.name
    title = f"{', '.join(printable(each, 60) for each in saved.targets)} from {printable(name, 60)}"
    write_atomically(path, make_page(title, _body(saved, split)))


def _body(saved: SavedModel, split: Split) -> Iterator[str]:
    regressor, fit, depth = saved.regressor, saved.fit, saved.regressor.model_.depth
    classes = isinstance(regressor, DeepKernelClassifier)
    what = "one layer" if depth == 1 else f"{depth} layers"
    if depth == 1 and isinstance(regressor.model_.likelihood, Gaussian):
        what += ", which is a plain GP"
    elif isinstance(regressor.model_.likelihood, HeteroscedasticGaussian):
        what += ", with noise that depends on the inputs"
    left_out = ""
    if fit["left_out"]:
        left_out = f" {fit['left_out']:,} rows without a target were left out."
    yield _paragraph(
        f"A model of {what} ({regressor.process}, {regressor.kernel} kernel, "
        f"{regressor.n_inducing_} inducing points), trained for {regressor.n_iter_:,} steps on "
        f"{fit['rows']:,} rows and {regressor.n_features_in_} inputs, and tested on "
        f"{len(split.test[1]):,} rows that it has not seen."
        f"{left_out} ELBO {regressor.elbo_:.3f} nats per row"
        f"{'' if classes else ', in standardised units'}."
    )
    yield from (_classes if classes else _numbers)(saved, split)
    yield from _relevance(saved, split)
    yield "<h2>Training</h2>"
    noise = ", and the learned noise" if any(regressor.history_.noise) else ""
    yield picture(
        plots.training_curves({"model": regressor.history_}),
        f"The objective of every step (thin) and its running mean (thick){noise}.",
        "training curves",
    )
    yield "<h2>Columns</h2>"
    rows = [[printable(str(column), 120)] for column in saved.encoder.columns]
    yield table(["inputs"], rows)


def _classes(saved: SavedModel, split: Split) -> Iterator[str]:
    """Scores, reliability and errors of a classifier."""
    (target,), (X, y), classifier = saved.targets, split.test, saved.regressor
    assert isinstance(classifier, DeepKernelClassifier)
    yield "<h2>Scores</h2>"
    yield from _scores(saved.fit, target, len(y), _CLASS_SCORES)
    figure = plots.reliability({"model": reliability_of(saved.fit["holdout"])})
    yield picture(figure, RELIABILITY, f"reliability of {printable(target, 60)}")
    yield from confusion_table(y[:, 0], classifier.predict(X), classifier.classes_)


def confusion_table(labels: np.ndarray, guesses: np.ndarray, classes: np.ndarray) -> Iterator[str]:
    """How many held-out rows of each class were taken for which."""
    if len(classes) > _MOST_CLASSES:
        return
    counts = confusion_matrix(labels, guesses, labels=classes)
    names = [printable(str(label), 30) for label in classes]
    rows = [[name, *map("{:,}".format, row)] for name, row in zip(names, counts, strict=True)]
    yield "<p>Rows of each class, by the class they were taken for:</p>"
    yield table(["true class", *names], rows, list(range(1, len(classes) + 1)))


def _numbers(saved: SavedModel, split: Split) -> Iterator[str]:
    """Scores and pictures of a regressor, target by target."""
    X, y = split.test
    distribution = saved.regressor.predict_distribution(X)
    found = (*distribution.mean_and_stddev(), *distribution.quantile([0.05, 0.95]))
    for index, target in enumerate(saved.targets):
        mean, stddev, lower, upper = (part.reshape(y.shape)[:, index] for part in found)
        truth, name = y[:, index], printable(target, 60)
        yield f"<h2>{html.escape(name) if len(saved.targets) > 1 else 'Scores'}</h2>"
        yield from _scores(saved.fit, target, len(y), _NUMBER_SCORES)
        yield '<div class="pair">'
        yield picture(
            plots.against_truth(mean, lower, upper, truth, target=target),
            "Held-out rows. Nine in ten of the points should lie on their interval.",
            f"true {name} against predicted {name}",
        )
        curve = metrics.calibration_curve(TargetColumn(distribution, y, index), truth)
        yield picture(
            plots.calibration({"model": curve}, num_rows=len(y)),
            "How often a held-out value lies below the predicted quantile of each probability. "
            "Nine in ten calibrated curves pass through the band at any one probability.",
            f"calibration of {name}",
        )
        yield "</div>"
        yield picture(
            plots.residuals(mean, stddev, truth, target=target),
            "Residuals in units of the predicted standard deviation. A pattern against the "
            "prediction is something the model has missed.",
            f"residuals of {name}",
        )


def _scores(fit: dict[str, Any], target: str, rows: int, meaning: str) -> Iterator[str]:
    """Tables of the scores of several models, the best of each line in bold, in words."""
    reports = {f"On {rows:,} rows held out:": fit["holdout"]}
    if fit["cv"]:
        parts = f"Cross-validated in {fit['cv']['folds']} parts"
        reports[f"{parts}, mean and standard error over the parts:"] = fit["cv"]
    for heading, report in reports.items():
        scores = report["targets"][target]
        models = known_models(scores)
        yield _paragraph(heading)
        yield table(["", *models], *score_lines(rows_of(scores), models.values()))
    yield _paragraph(meaning)


def _relevance(saved: SavedModel, split: Split) -> Iterator[str]:
    X, y = split.test[0][:_MOST_ROWS], split.test[1][:_MOST_ROWS]
    found = saved.regressor.relevance(X, targets_of(y), groups=column_groups(saved.encoder))
    yield "<h2>Relevance</h2>"
    yield picture(
        plots.relevance(found),
        "What the log score of held-out rows loses when the values of a column are dealt out to "
        f"the rows at random, with one standard error ({len(y):,} rows). Short lengthscales of the "
        "first layer say what the model looks at; they are in standard deviations of the column.",
        "relevance of the columns",
    )
    lines = relevance_lines(sorted(found, key=lambda one: -(one.importance or 0.0)))
    yield table(["column", "lost without it (nats)", "lengthscale"], lines)


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"
