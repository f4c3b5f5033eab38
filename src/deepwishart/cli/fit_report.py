"""``deepwishart fit --report``: a page about a model and the rows that were held out."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deepwishart import metrics, plots
from deepwishart._support.files import write_atomically
from deepwishart._support.numbers import plain
from deepwishart._support.pages import make_page, picture, table
from deepwishart.cli.class_page import CLASS_SCORES, confusion_table, reliability_picture
from deepwishart.cli.errors import printable
from deepwishart.cli.explaining import column_groups
from deepwishart.cli.scores import MODELS, rows_of, show
from deepwishart.estimators import DeepKernelClassifier
from deepwishart.likelihoods import Gaussian, HeteroscedasticGaussian
from deepwishart.pipeline import RescaledPredictive

if TYPE_CHECKING:
    from deepwishart.cli.directory import SavedModel
    from deepwishart.cli.preparation import Split

__all__ = ["score_table", "write_fit_report"]

_MOST_ROWS = 500  # to deal values out to
_HIGHER = {
    **{"log_likelihood": 1.0, "rmse": -1.0, "crps": -1.0},
    **{"log_loss": -1.0, "accuracy": 1.0, "brier": -1.0},
}


def write_fit_report(path: Path, saved: SavedModel, split: Split, data: Path) -> None:
    """Write the page."""
    name = "standard input" if str(data) == "-" else data.name
    title = f"{', '.join(printable(each, 60) for each in saved.targets)} from {printable(name, 60)}"
    write_atomically(path, make_page(title, _body(saved, split)))


def score_table(scores: dict[str, dict[str, Any]]) -> str:
    """Scores of several models as an HTML table, the best of each row in bold."""
    known = {which: label for which, label in MODELS.items() if which in scores}
    rows, best = [], []
    for key, label, form in rows_of(scores):
        values = [scores[which][key] for which in known]
        rows.append([label, *(show(value, form) for value in values)])
        numbers = [value["mean"] if isinstance(value, dict) else value for value in values]
        sign = _HIGHER.get(key)
        best.append(None if sign is None else 1 + int(np.argmax(sign * np.array(numbers))))
    return table(["", *known.values()], rows, best)


def _body(saved: SavedModel, split: Split) -> Iterator[str]:
    regressor, fit = saved.regressor, saved.fit
    y = split.test[1]
    left_out = (
        f" {fit['left_out']:,} rows without a target were left out." if fit["left_out"] else ""
    )
    depth = regressor.model_.depth
    what = "one layer" if depth == 1 else f"{depth} layers"
    if depth == 1 and isinstance(regressor.model_.likelihood, Gaussian):
        what += ", which is a plain GP"
    elif isinstance(regressor.model_.likelihood, HeteroscedasticGaussian):
        what += ", with noise that depends on the inputs"
    yield _paragraph(
        f"A model of {what} ({regressor.process}, {regressor.kernel} kernel, "
        f"{regressor.n_inducing_} inducing points), trained for {regressor.n_iter_:,} steps on "
        f"{fit['rows']:,} rows and {regressor.n_features_in_} inputs, and tested on {len(y):,} "
        "rows that it has not seen."
        f"{left_out} ELBO {regressor.elbo_:.3f} nats per row"
        f"{'' if isinstance(regressor, DeepKernelClassifier) else ', in standardised units'}."
    )
    if isinstance(regressor, DeepKernelClassifier):
        yield from _classes(saved, split)
    else:
        yield from _numbers(saved, split)
    yield from _relevance(saved, split)
    yield "<h2>Training</h2>"
    yield picture(
        plots.training_curves({"model": regressor.history_}),
        "The objective of every step (thin) and its running mean (thick), and the learned noise."
        if any(regressor.history_.noise)
        else "The objective of every step (thin) and its running mean (thick).",
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
    yield from _scores(saved.fit, target, len(y), CLASS_SCORES)
    yield reliability_picture(saved.fit["holdout"], printable(target, 60))
    yield from confusion_table(y[:, 0], classifier.predict(X), classifier.classes_)


def _numbers(saved: SavedModel, split: Split) -> Iterator[str]:
    """Scores and pictures of a regressor, target by target."""
    fit, (X, y) = saved.fit, split.test
    distribution = saved.regressor.predict_distribution(X)
    mean, stddev = (part.reshape(len(X), -1) for part in distribution.mean_and_stddev())
    lower, upper = (part.reshape(len(X), -1) for part in distribution.quantile([0.05, 0.95]))
    for index, target in enumerate(saved.targets):
        several = len(saved.targets) > 1
        name = printable(target, 60)
        yield f"<h2>{html.escape(name)}</h2>" if several else "<h2>Scores</h2>"
        yield from _scores(fit, target, len(y), _NUMBER_SCORES)
        parts = (part[:, index] for part in (mean, lower, upper, y))
        yield '<div class="pair">'
        yield picture(
            plots.against_truth(*parts, target=target),
            "Held-out rows. Nine in ten of the points should lie on their interval.",
            f"true {name} against predicted {name}",
        )
        curve = _calibration_curve(distribution, y, index)
        yield picture(
            plots.calibration({"model": curve}, num_rows=len(y)),
            "How often a held-out value lies below the predicted quantile of each probability. "
            "Within the band, a curve cannot be told from a calibrated one.",
            f"calibration of {name}",
        )
        yield "</div>"
        yield picture(
            plots.residuals(mean[:, index], stddev[:, index], y[:, index], target=target),
            "Residuals in units of the predicted standard deviation. A pattern against the "
            "prediction is something the model has missed.",
            f"residuals of {name}",
        )


_NUMBER_SCORES = (
    "Log likelihood is in nats per row, higher is better; RMSE and CRPS are in units of the "
    "target, lower is better. The constant guess has mean and standard deviation of the "
    "training rows for every row; the linear model is Bayesian linear regression; a plain GP is "
    "the same model with one layer and, unless another was asked for, constant noise; it has a "
    "column of its own where the model is not one itself. "
    "One division of the rows: small differences mean little."
)


def _scores(fit: dict[str, Any], target: str, rows: int, meaning: str) -> Iterator[str]:
    yield _paragraph(f"On {rows:,} rows held out:")
    yield score_table(fit["holdout"]["targets"][target])
    if fit["cv"]:
        yield _paragraph(
            f"Cross-validated in {fit['cv']['folds']} parts, mean and standard error over the "
            "parts:"
        )
        yield score_table(fit["cv"]["targets"][target])
    yield _paragraph(meaning)


def _relevance(saved: SavedModel, split: Split) -> Iterator[str]:
    X, y = (part[:_MOST_ROWS] for part in split.test)
    targets = y[:, 0] if y.shape[1] == 1 else y
    found = saved.regressor.relevance(X, targets, groups=column_groups(saved.encoder))
    yield "<h2>Relevance</h2>"
    yield picture(
        plots.relevance(found),
        "What the log score of held-out rows loses when the values of a column are dealt out to "
        f"the rows at random, with one standard error ({len(y):,} rows). Short lengthscales of the "
        "first layer say what the model looks at; they are in standard deviations of the column.",
        "relevance of the columns",
    )
    rows = [
        [
            printable(each.name, 60),
            each.lost(),
            "" if each.lengthscale is None else plain(each.lengthscale, 3),
        ]
        for each in sorted(found, key=lambda one: -(one.importance or 0.0))
    ]
    yield table(["column", "lost without it (nats)", "lengthscale"], rows)


def _calibration_curve(
    distribution: RescaledPredictive, y: np.ndarray, index: int
) -> metrics.CalibrationCurve:
    """That of one target column, from the distribution function."""
    values = np.sort(
        distribution.cdf(y if y.shape[1] > 1 else y[:, 0]).reshape(len(y), -1)[:, index]
    )
    levels = np.linspace(0.05, 0.95, 19)
    return metrics.CalibrationCurve(levels, np.searchsorted(values, levels) / len(y))


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"
