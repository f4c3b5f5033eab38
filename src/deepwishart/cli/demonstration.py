"""The work of ``deepwishart demo``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Column, Table
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from deepwishart import metrics, plots
from deepwishart._support.machine import threads
from deepwishart.cli.page import Page
from deepwishart.estimators import DeepKernelRegressor
from deepwishart.pipeline import RescaledPredictive, score

__all__ = ["DemoSettings", "run_demo"]

NAMES = {"dwp": "deep Wishart process", "dgp": "deep Gaussian process"}
TARGET = "disease progression (score after one year)"
# Key, name and format of each score in the table of results.
SCORES = (
    ("elbo", "ELBO per row", ".3f"),
    ("log_likelihood", "test log likelihood", ".3f"),
    ("rmse", "RMSE", ".2f"),
    ("crps", "CRPS", ".2f"),
    ("coverage90", "inside the 90% interval", ".1%"),
    ("seconds", "seconds of training", ".1f"),
)


@dataclass(frozen=True)
class DemoSettings:
    """What both models have in common; names are the regressor's."""

    depth: int = 3
    n_inducing: int = 50
    max_iter: int = 2000
    n_samples: int = 5
    n_predict_samples: int = 100
    random_state: int = 0


QUICK = replace(DemoSettings(), n_inducing=20, max_iter=40, n_predict_samples=20)
GRAM_ROWS = 100


@dataclass(frozen=True)
class Result:
    """One fitted model with its predictions for the held-out rows."""

    regressor: DeepKernelRegressor
    prediction: RescaledPredictive
    scores: dict[str, float]


def run_demo(out: Path, *, quick: bool) -> None:
    """Train both processes, print their scores, write the page."""
    settings = QUICK if quick else DemoSettings()
    out.mkdir(parents=True, exist_ok=True)  # better to fail before training than after it
    console = Console(highlight=False)
    X, y = load_diabetes(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    console.print(
        f"scikit-learn's diabetes data: {len(X_train)} rows to learn from, {len(X_test)} held out, "
        f"{X.shape[1]} inputs; {settings.depth} layers, {settings.max_iter} steps for each model"
    )
    with threads(1):  # matrices this small lose by a second one where cores are busy
        results = {
            process: _fit(process, settings, X_train, y_train, X_test, y_test) for process in NAMES
        }
    console.print(_results_table(results))
    page = _make_page(results, settings, X_train, y_train, y_test)
    where = page.write(out / "index.html")
    console.print(f"page written to {where}", soft_wrap=True, markup=False)


def _fit(
    process: str,
    settings: DemoSettings,
    X_train: np.ndarray,
    y_train: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
) -> Result:
    regressor = DeepKernelRegressor(process, **asdict(settings), verbose=1).fit(X_train, y_train)
    prediction = regressor.predict_distribution(X_test)
    seconds = regressor.history_.seconds[-1]
    (scores,) = score(prediction, y_test)
    scores = {"elbo": regressor.elbo_, **scores, "seconds": seconds}
    return Result(regressor, prediction, scores)


def _rows(results: dict[str, Result]) -> list[list[str]]:
    """Name and values of each score, as texts."""
    return [
        [name, *(format(result.scores[key], form) for result in results.values())]
        for key, name, form in SCORES
    ]


def _results_table(results: dict[str, Result]) -> Table:
    table = Table("", *(Column(NAMES[process], justify="right") for process in results))
    for row in _rows(results):
        table.add_row(*row)
    return table


def _make_page(
    results: dict[str, Result],
    settings: DemoSettings,
    X_train: np.ndarray,
    y_train: np.ndarray,
    y_test: np.ndarray,
) -> Page:
    page = Page("Deep Wishart process and deep Gaussian process on the diabetes data")
    page.text(
        f"Two models of {settings.depth} layers with the same prior over functions, fitted to the "
        f"same {len(y_train)} patients (10 inputs; {settings.n_inducing} inducing points, "
        f"{settings.max_iter} steps of Adam, seed {settings.random_state}) and tested on "
        f"{len(y_test)} others. The deep Gaussian process approximates its posterior in terms of "
        "features, the deep Wishart process in terms of their Gram matrices. The target is a score "
        "of disease progression from 25 to 346."
    )
    page.table(["", *(NAMES[process] for process in results)], _rows(results))
    page.text(
        "The ELBO bounds the log evidence from below, in nats per row and standardised units; "
        "higher is better. Log likelihood (nats per row), RMSE and CRPS are in units of the "
        "target, on held-out rows. This is one split and one seed: small differences do not say "
        "which model is better."
    )
    _add_pictures(page, results, X_train, y_train, y_test)
    return page


def _add_pictures(
    page: Page,
    results: dict[str, Result],
    X_train: np.ndarray,
    y_train: np.ndarray,
    y_test: np.ndarray,
) -> None:
    page.figure(
        plots.training_curves(
            {NAMES[p]: result.regressor.history_ for p, result in results.items()}
        ),
        "Training",
        "The objective of every step (thin) and its running mean (thick), and the noise that each "
        "model has come to believe in.",
    )
    intervals = {
        NAMES[p]: tuple(result.prediction.quantile([0.5, 0.05, 0.95]))
        for p, result in results.items()
    }
    page.figure(
        plots.predictions(intervals, y_test, target=TARGET),
        "Predictions",
        "Held-out patients in the order of their predicted score, with 90% intervals. Nine in ten "
        "of the true scores should lie inside.",
    )
    curves = {NAMES[p]: metrics.calibration_curve(r.prediction, y_test) for p, r in results.items()}
    page.figure(
        plots.calibration(curves, num_rows=len(y_test)),
        "Calibration",
        "How often a held-out score lies below the predicted quantile of each probability. Within "
        "the band, a curve cannot be told from a calibrated one.",
    )
    chosen = _spread_over_target(y_train, GRAM_ROWS)
    grams = {p: _grams(result.regressor, X_train[chosen]) for p, result in results.items()}
    page.figure(
        plots.gram_matrices(grams, y_train[chosen], unit="rising disease progression"),
        "Learned Gram matrices",
        f"Similarity of {len(chosen)} training patients, from the kernel of the inputs through "
        "each layer to the kernel that the output is drawn with; the mean of 20 posterior samples. "
        "Patients are ordered by their score, and a map is bright where a layer takes two of them "
        "for alike.",
    )


def _grams(regressor: DeepKernelRegressor, X: np.ndarray) -> dict[str, np.ndarray]:
    model = regressor.model_
    inputs = regressor._scaled.tensor(regressor._scaled.inputs.forward(X))
    generator = torch.Generator(model.device).manual_seed(regressor.seed_)
    return plots.layer_grams(model, inputs, generator=generator)


def _spread_over_target(y: np.ndarray, count: int) -> np.ndarray:
    """Rows whose targets are spread evenly over the sorted ones."""
    order = np.argsort(y, kind="stable")
    return order[np.linspace(0, len(y) - 1, min(count, len(y))).astype(int)]
