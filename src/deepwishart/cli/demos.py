"""The work of ``deepwishart demo``: a small data set, and models that everyone knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Console
from sklearn.datasets import make_swiss_roll
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from deepwishart import metrics, plots
from deepwishart._support.files import write_atomically
from deepwishart._support.machine import threads
from deepwishart._support.pages import picture, render
from deepwishart.cli.errors import plain_warnings
from deepwishart.cli.scores import Row, score_lines, table_of
from deepwishart.estimators import DeepKernelRegressor
from deepwishart.plots.style import MAP, new_figure, tidy

__all__ = ["run_demo"]

TITLE = "Unrolling a Swiss roll: linear model, Gaussian process, deep Gaussian and Wishart process"
TARGET = "angle along the roll (radians)"
GRAM_ROWS = 100
SHOWN_ROWS = 60
_ROWS: tuple[Row, ...] = (
    ("elbo", "log evidence or bound", ".3f", 1),
    ("log_likelihood", "log likelihood, held out", ".3f", 1),
    ("rmse", "RMSE", ".4f", -1),
    ("crps", "CRPS", ".4f", -1),
    ("coverage", "inside the 90% interval", ".1%", 0),
    ("seconds", "processor seconds", ".1f", 0),
)
Rows = tuple[np.ndarray, np.ndarray]


def run_demo(out: Path, *, quick: bool) -> None:
    """Unroll a Swiss roll: fit, print scores, write the page."""
    rows, inducing, steps, samples = (60, 20, 10, 20) if quick else (400, 50, 1000, 100)
    settings: dict[str, Any] = {"depth": 3, "n_inducing": inducing, "max_iter": steps}
    settings |= {"n_predict_samples": samples, "random_state": 0, "verbose": 1}
    X, y = make_swiss_roll(rows + 1000, noise=0.3, random_state=0)
    train, test = (X[:rows], y[:rows]), (X[rows:], y[rows:])
    text = (
        "Points of a sheet that has been rolled up, with noise (scikit-learn's make_swiss_roll): "
        "three coordinates in, the angle along the roll out. Neighbours in space may be far apart "
        f"along the roll. {rows} points to learn from, 1,000 held out; the deep models have 3 "
        f"layers, {inducing} inducing points and at most {steps:,} steps."
    )
    Console(highlight=False).print(text)
    noise = WhiteKernel(0.1, (1e-8, 10.0))
    kernel = ConstantKernel() * RBF([1.0] * X.shape[1], (1e-2, 1e4)) + noise
    gp = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0)
    others = {
        "linear model": make_pipeline(StandardScaler(), BayesianRidge()),
        "plain GP": make_pipeline(StandardScaler(), gp),
    }
    deep = {
        "deep GP": DeepKernelRegressor("dgp", **settings),
        "deep Wishart": DeepKernelRegressor("dwp", **settings),
    }
    # A lengthscale of the plain GP at its limit is fine.
    with plain_warnings("The optimal value found|lbfgs failed to converge"):
        seconds = _fit(others | deep, train)
        said = {name: one.predict(test[0], return_std=True) for name, one in others.items()}
        said |= {name: one.predict_distribution(test[0]) for name, one in deep.items()}
    evidence = {"plain GP": gp.log_marginal_likelihood_value_ / rows}
    evidence |= {name: model.elbo_ for name, model in deep.items()}
    scores = {
        name: {
            "elbo": evidence.get(name),
            "log_likelihood": metrics.log_likelihood(one, test[1]),
            "rmse": metrics.rmse(one, test[1]),
            "crps": metrics.crps(one, test[1]),
            "coverage": metrics.interval_coverage(one, test[1], 0.9),
            "seconds": seconds[name],
        }
        for name, one in said.items()
    }
    console = Console(highlight=False)
    lines, best = score_lines(_ROWS, scores.values())
    console.print(table_of(lines, "", *scores))
    parts = {**_pictures(said, deep, train, test), "lines": lines, "best": best}
    page = render("demo.html", title=TITLE, text=text, names=list(scores), **parts)
    where = write_atomically(out / "index.html", page)
    console.print(f"page written to {where}", soft_wrap=True, markup=False)


def _fit(models: Mapping[str, Any], train: Rows) -> dict[str, float]:
    """The processor seconds that each took."""
    seconds = {}
    with threads(1):  # matrices this small lose by a second one where cores are busy
        for name, model in models.items():
            began = process_time()
            model.fit(*train)
            seconds[name] = process_time() - began
    return seconds


def _pictures(
    said: dict[str, Any], models: dict[str, DeepKernelRegressor], train: Rows, test: Rows
) -> dict[str, Any]:
    """What the page of the Swiss roll shows besides scores."""
    # The deep models first: colours go by the order.
    said, models = dict(reversed(said.items())), dict(reversed(models.items()))
    errors = {name: np.abs(_mean(one) - test[1]) for name, one in said.items()}
    del errors["linear model"]
    inner = np.argsort(test[1])[:SHOWN_ROWS]
    intervals = {name: _interval(said[name], inner) for name in errors}
    calibration = {name: metrics.calibration_curve(one, test[1]) for name, one in said.items()}
    # Rows whose targets are spread evenly over the sorted ones.
    X, y = train
    rows = np.linspace(0, len(y) - 1, min(GRAM_ROWS, len(y))).astype(int)
    chosen = np.argsort(y, kind="stable")[rows]
    grams = {}
    for model in models.values():
        inputs = model._scaled.tensor(model._scaled.inputs.forward(X[chosen]))
        generator = torch.Generator(model.model_.device).manual_seed(model.seed_)
        grams[model.process] = plots.layer_grams(model.model_, inputs, generator=generator)
    figures = {
        "errors": _roll(test, errors),
        "predictions": plots.predictions(intervals, test[1][inner], target=TARGET),
        "calibration_curves": plots.calibration(calibration, num_rows=len(test[1])),
        "curves": plots.training_curves({name: one.history_ for name, one in models.items()}),
        "grams": plots.gram_matrices(grams, y[chosen], unit="rising angle"),
    }
    pictures = {name: picture(each, name.replace("_", " ")) for name, each in figures.items()}
    return {**pictures, "shown": SHOWN_ROWS, "gram_rows": len(chosen)}


def _mean(prediction: Any) -> np.ndarray:
    return prediction[0] if isinstance(prediction, tuple) else prediction.mean


def _interval(prediction: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Median and ends of the 90% interval of some rows."""
    if isinstance(prediction, tuple):
        mean, stddev = (part[rows] for part in prediction)
        return mean, mean - 1.645 * stddev, mean + 1.645 * stddev
    middle, lower, upper = (part[rows] for part in prediction.quantile([0.5, 0.05, 0.95]))
    return middle, lower, upper


def _roll(test: Rows, errors: Mapping[str, np.ndarray]) -> Figure:
    """The points from the side, coloured by their angle and by the errors of each model."""
    X, y = test
    figure = new_figure(9.0, 2.9)
    panels = figure.subplots(1, 1 + len(errors), sharex=True, sharey=True)
    worst = float(np.quantile(np.concatenate(list(errors.values())), 0.99))
    maps = {"angle": (y, None), **{name: (each, worst) for name, each in errors.items()}}
    for axes, (name, (values, top)) in zip(panels, maps.items(), strict=True):
        low = None if top is None else 0.0
        style: dict[str, Any] = {"s": 5, "cmap": MAP, "vmin": low, "vmax": top, "rasterized": True}
        dots = axes.scatter(X[:, 0], X[:, 2], c=values, **style)
        title = "angle" if top is None else f"error of {name}"
        tidy(axes, title=title, aspect="equal", xticks=[], yticks=[])
        figure.colorbar(dots, ax=axes, location="bottom", shrink=0.85, aspect=18)
    return figure
