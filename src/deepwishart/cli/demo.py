"""``deepwishart demo``: the whole job on a small data set, beside models that everyone knows."""

from __future__ import annotations

import html
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from deepwishart.estimators import DeepKernelRegressor

__all__ = ["demo"]

TITLE = "Unrolling a Swiss roll: linear model, Gaussian process, deep Gaussian and Wishart process"
TARGET = "angle along the roll (radians)"
PROCESSES = {"dgp": "deep GP", "dwp": "deep Wishart"}
GRAM_ROWS = 100
SHOWN_ROWS = 60
_BEST = {"log_likelihood": 1, "rmse": -1, "crps": -1, "elbo": 1}
_NOTE = (
    "The evidence is the log density of the training targets, in nats per row and standardised "
    "units: exact for the plain GP, a lower bound (ELBO) for the deep ones. The linear model is "
    "Bayesian linear regression. Log likelihood (nats per row), RMSE and CRPS are in radians, on "
    "rows that no model has seen; the best of a row is bold. This is one data set and one seed, "
    "chosen because it is hard for a plain GP; on many tables depth gains little. The two deep "
    "models share a prior, and one seed does not say which of them is better."
)


class Fitted(NamedTuple):
    """A model's prediction for the held-out rows, its evidence per row and what it took."""

    prediction: Any
    evidence: float | None
    seconds: float


def demo(
    out: Annotated[
        Path, typer.Option(help="Directory for the page, index.html; made if it does not exist.")
    ] = Path("deepwishart-demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A few steps only, to see that everything works.")
    ] = False,
    classification: Annotated[
        bool,
        typer.Option("--classification", help="Tell benign from malignant tumours instead."),
    ] = False,
) -> None:
    """Fit a deep Wishart process to a Swiss roll, beside a linear model, a GP and a deep GP.

    Needs no network. Prints scores on held-out rows and writes one HTML page with pictures of
    training, predictions, calibration and learned Gram matrices.
    """
    out.mkdir(parents=True, exist_ok=True)  # better to fail before training than after it
    if classification:
        from deepwishart.cli.class_demo import run_class_demo

        return run_class_demo(out, quick=quick)
    from rich.console import Console
    from rich.table import Column, Table
    from sklearn.datasets import make_swiss_roll

    from deepwishart._support.files import write_atomically
    from deepwishart._support.machine import threads
    from deepwishart._support.pages import make_page, picture, table
    from deepwishart.cli.errors import plain_warnings
    from deepwishart.estimators import DeepKernelRegressor

    rows, inducing, steps, samples = (60, 20, 10, 20) if quick else (400, 50, 1000, 100)
    settings: dict[str, Any] = {"depth": 3, "n_inducing": inducing, "max_iter": steps}
    settings |= {"n_predict_samples": samples, "random_state": 0, "verbose": 1}
    console = Console(highlight=False)
    X, y = make_swiss_roll(rows + 1000, noise=0.3, random_state=0)
    train, test = (X[:rows], y[:rows]), (X[rows:], y[rows:])
    text = (
        "Points of a sheet that has been rolled up, with noise (scikit-learn's make_swiss_roll): "
        "three coordinates in, the angle along the roll out. Neighbours in space may be far apart "
        f"along the roll. {rows} points to learn from, 1,000 held out; the deep models have 3 "
        f"layers, {inducing} inducing points and at most {steps:,} steps."
    )
    console.print(text)
    with (
        plain_warnings(),
        threads(1),
    ):  # matrices this small lose by a second one where cores are busy
        fitted = {"linear model": _linear(*train, test[0]), "plain GP": _gp(*train, test[0])}
        models: dict[str, DeepKernelRegressor] = {}
        for process, name in PROCESSES.items():
            began = time.process_time()
            model = DeepKernelRegressor(process, **settings).fit(*train)
            seconds = time.process_time() - began
            fitted[name] = Fitted(model.predict_distribution(test[0]), model.elbo_, seconds)
            models[name] = model
    lines, best = _scores(fitted, test[1])
    shown = Table("", *(Column(name, justify="right") for name in fitted))
    for line in lines:
        shown.add_row(*line)
    console.print(shown)
    body = [f"<p>{html.escape(text)}</p>", table(["", *fitted], lines, best)]
    body.append(f"<p>{html.escape(_NOTE)}</p>")
    for title, figure, caption in _pictures(fitted, models, train, test):
        body += [f"<h2>{title}</h2>", picture(figure, caption, title)]
    where = write_atomically(out / "index.html", make_page(TITLE, body))
    console.print(f"page written to {where}", soft_wrap=True, markup=False)


def _linear(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Fitted:
    from sklearn.linear_model import BayesianRidge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    began = time.process_time()
    model = make_pipeline(StandardScaler(), BayesianRidge()).fit(X, y)
    seconds = time.process_time() - began
    return Fitted(model.predict(new, return_std=True), None, seconds)


def _gp(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Fitted:
    """scikit-learn's, exact, with a lengthscale for each input."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    began = time.process_time()
    noise = WhiteKernel(0.1, (1e-8, 10.0))
    kernel = ConstantKernel() * RBF([1.0] * X.shape[1], (1e-2, 1e4)) + noise
    gp = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a lengthscale at its limit is fine
        model = make_pipeline(StandardScaler(), gp).fit(X, y)
    seconds = time.process_time() - began
    evidence = gp.log_marginal_likelihood_value_ / len(y)
    return Fitted(model.predict(new, return_std=True), evidence, seconds)


def _scores(
    fitted: Mapping[str, Fitted], y: np.ndarray
) -> tuple[list[list[str]], list[int | None]]:
    """Name and values of each score, as texts, and the place of the best."""
    import numpy as np

    from deepwishart import metrics

    found = {
        "elbo": [one.evidence for one in fitted.values()],
        "log_likelihood": [metrics.log_likelihood(one.prediction, y) for one in fitted.values()],
        "rmse": [metrics.rmse(one.prediction, y) for one in fitted.values()],
        "crps": [metrics.crps(one.prediction, y) for one in fitted.values()],
        "coverage": [metrics.interval_coverage(one[0], y, 0.9) for one in fitted.values()],
        "seconds": [one.seconds for one in fitted.values()],
    }
    labels = {
        "elbo": ("log evidence or bound", ".3f"),
        "log_likelihood": ("log likelihood, held out", ".3f"),
        "rmse": ("RMSE", ".4f"),
        "crps": ("CRPS", ".4f"),
        "coverage": ("inside the 90% interval", ".1%"),
        "seconds": ("processor seconds", ".1f"),
    }
    lines, best = [], []
    for key, (label, form) in labels.items():
        values = found[key]
        lines.append([label, *("" if value is None else format(value, form) for value in values)])
        sign = _BEST.get(key)
        numbers = [-np.inf if value is None else (sign or 0) * value for value in values]
        best.append(None if sign is None else 1 + int(np.argmax(numbers)))
    return lines, best


def _pictures(
    fitted: dict[str, Fitted],
    models: dict[str, DeepKernelRegressor],
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
) -> Iterator[tuple[str, Figure, str]]:
    """Title, picture and caption."""
    import numpy as np
    import torch

    from deepwishart import metrics, plots

    # The deep models first: colours go by the order.
    fitted = dict(reversed(fitted.items()))
    models = dict(reversed(models.items()))
    errors = {name: np.abs(_mean(one.prediction) - test[1]) for name, one in fitted.items()}
    del errors["linear model"]
    yield (
        "Errors",
        _roll(test, errors),
        "The roll from its side: the angle of held-out points, and how far the prediction is off. "
        "All maps of errors have the same colours; the linear model's errors are off the scale.",
    )
    inner = np.argsort(test[1])[:SHOWN_ROWS]
    intervals = {name: _interval(fitted[name].prediction, inner) for name in errors}
    yield (
        "Predictions",
        plots.predictions(intervals, test[1][inner], target=TARGET),
        f"The {SHOWN_ROWS} held-out points nearest the inner end of the roll, where it bends most, "
        "in the order of their predicted angle, with 90% intervals. Of all points nine in ten "
        "should lie inside, see the table; here, where noise in the inputs counts most, fewer do.",
    )
    curves = {
        name: metrics.calibration_curve(one.prediction, test[1]) for name, one in fitted.items()
    }
    yield (
        "Calibration",
        plots.calibration(curves, num_rows=len(test[1])),
        "How often a held-out angle lies below the predicted quantile of each probability. Within "
        "the band, a curve cannot be told from a calibrated one.",
    )
    yield (
        "Training",
        plots.training_curves({name: model.history_ for name, model in models.items()}),
        "The objective of every step (thin) and its running mean (thick), and the noise that each "
        "model has come to believe in.",
    )
    # Rows whose targets are spread evenly over the sorted ones.
    X, y = train
    rows = np.linspace(0, len(y) - 1, min(GRAM_ROWS, len(y))).astype(int)
    chosen = np.argsort(y, kind="stable")[rows]
    grams = {}
    for model in models.values():
        inputs = model._scaled.tensor(model._scaled.inputs.forward(X[chosen]))
        generator = torch.Generator(model.model_.device).manual_seed(model.seed_)
        grams[model.process] = plots.layer_grams(model.model_, inputs, generator=generator)
    yield (
        "Learned Gram matrices",
        plots.gram_matrices(grams, y[chosen], unit="rising angle"),
        f"Similarity of {len(chosen)} training points, from the kernel of the inputs through each "
        "layer to the kernel that the output is drawn with; the mean of 20 posterior samples. "
        "Points are ordered by their angle, and a map is bright where a layer takes two of them "
        "for alike: stripes beside the diagonal are neighbouring turns of the roll.",
    )


def _mean(prediction: Any) -> np.ndarray:
    return prediction[0] if isinstance(prediction, tuple) else prediction.mean


def _interval(prediction: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Median and ends of the 90% interval of some rows."""
    if isinstance(prediction, tuple):
        mean, stddev = (part[rows] for part in prediction)
        return mean, mean - 1.645 * stddev, mean + 1.645 * stddev
    middle, lower, upper = (part[rows] for part in prediction.quantile([0.5, 0.05, 0.95]))
    return middle, lower, upper


def _roll(test: tuple[np.ndarray, np.ndarray], errors: Mapping[str, np.ndarray]) -> Figure:
    """The points from the side, coloured by their angle and by the errors of each model."""
    import numpy as np

    from deepwishart.plots.style import MAP, new_figure, tidy

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
