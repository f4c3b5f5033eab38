"""``deepwishart demo``: the whole job on a small data set."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from deepwishart.estimators import DeepKernelRegressor

__all__ = ["demo", "page"]

NAMES = {"dwp": "deep Wishart process", "dgp": "deep Gaussian process"}
TARGET = "disease progression (score after one year)"
GRAM_ROWS = 100
_STYLE = """
  body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff;
         max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
  h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.15rem; margin-top: 2rem; }
  table { border-collapse: collapse; margin: 1rem 0; }
  th, td { padding: .35rem .8rem; border-bottom: 1px solid #ccc; text-align: right; }
  th:first-child, td:first-child { text-align: left; }
  figure { margin: 0; } figure img { max-width: 100%; height: auto; }
  figcaption { color: #555; max-width: 48rem; }
"""


def demo(
    out: Annotated[
        Path, typer.Option(help="Directory for the page, index.html; made if it does not exist.")
    ] = Path("deepwishart-demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A few steps only, to see that everything works.")
    ] = False,
) -> None:
    """Fit a deep Wishart process and the equivalent deep GP to the diabetes data, and compare them.

    Needs no network. Prints scores on held-out rows and writes one HTML page with pictures of
    training, predictions, calibration and learned Gram matrices.
    """
    from rich.console import Console
    from rich.table import Column, Table
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    from deepwishart._support.files import write_atomically
    from deepwishart._support.machine import threads
    from deepwishart.estimators import DeepKernelRegressor

    inducing, steps, samples = (20, 40, 20) if quick else (50, 2000, 100)
    settings: dict[str, Any] = {"depth": 3, "n_inducing": inducing, "max_iter": steps}
    settings |= {"n_samples": 5, "n_predict_samples": samples, "random_state": 0, "verbose": 1}
    out.mkdir(parents=True, exist_ok=True)  # better to fail before training than after it
    console = Console(highlight=False)
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=0)
    console.print(
        f"scikit-learn's diabetes data: {len(X)} rows to learn from, {len(X_test)} held out, "
        f"{X.shape[1]} inputs; 3 layers, {steps} steps for each model"
    )
    with threads(1):  # matrices this small lose by a second one where cores are busy
        models = {
            name: DeepKernelRegressor(process, **settings).fit(X, y)
            for process, name in NAMES.items()
        }
    predictions = {name: model.predict_distribution(X_test) for name, model in models.items()}
    rows = _scores(models, predictions, y_test)
    table = Table("", *(Column(name, justify="right") for name in models))
    for row in rows:
        table.add_row(*row)
    console.print(table)
    text = (
        f"Two models of 3 layers with the same prior over functions, fitted to the same {len(y)} "
        f"patients (10 inputs; {inducing} inducing points, {steps} steps of Adam, seed 0) and "
        f"tested on {len(y_test)} others. The deep Gaussian process approximates its posterior in "
        "terms of features, the deep Wishart process in terms of their Gram matrices. The target "
        "is a score of disease progression from 25 to 346."
    )
    pictures = _pictures(models, predictions, X, y, y_test)
    where = write_atomically(out / "index.html", page(text, ["", *models], rows, pictures))
    console.print(f"page written to {where}", soft_wrap=True, markup=False)


def _scores(
    models: Mapping[str, DeepKernelRegressor], predictions: Mapping[str, Any], y: np.ndarray
) -> list[list[str]]:
    """Name and values of each score, as texts."""
    from deepwishart.cli.scores import ROWS
    from deepwishart.pipeline import score

    shown = ("elbo", "ELBO per row", ".3f"), *ROWS, ("seconds", "seconds of training", ".1f")
    found = [
        {"elbo": model.elbo_, "seconds": model.history_.seconds[-1]}
        | score(predictions[name], y)[0]
        for name, model in models.items()
    ]
    return [[name, *(format(each[key], form) for each in found)] for key, name, form in shown]


def _pictures(
    models: Mapping[str, DeepKernelRegressor],
    predictions: Mapping[str, Any],
    X: np.ndarray,
    y: np.ndarray,
    y_test: np.ndarray,
) -> Iterator[tuple[str, Figure, str]]:
    """Title, picture and caption."""
    import numpy as np
    import torch

    from deepwishart import metrics, plots

    yield (
        "Training",
        plots.training_curves({name: model.history_ for name, model in models.items()}),
        "The objective of every step (thin) and its running mean (thick), and the noise that each "
        "model has come to believe in.",
    )
    intervals = {name: tuple(p.quantile([0.5, 0.05, 0.95])) for name, p in predictions.items()}
    yield (
        "Predictions",
        plots.predictions(intervals, y_test, target=TARGET),
        "Held-out patients in the order of their predicted score, with 90% intervals. Nine in ten "
        "of the true scores should lie inside.",
    )
    curves = {name: metrics.calibration_curve(p, y_test) for name, p in predictions.items()}
    yield (
        "Calibration",
        plots.calibration(curves, num_rows=len(y_test)),
        "How often a held-out score lies below the predicted quantile of each probability. Within "
        "the band, a curve cannot be told from a calibrated one.",
    )
    # Rows whose targets are spread evenly over the sorted ones.
    chosen = np.argsort(y, kind="stable")[np.linspace(0, len(y) - 1, GRAM_ROWS).astype(int)]
    grams = {}
    for model in models.values():
        inputs = model._scaled.tensor(model._scaled.inputs.forward(X[chosen]))
        generator = torch.Generator(model.model_.device).manual_seed(model.seed_)
        grams[model.process] = plots.layer_grams(model.model_, inputs, generator=generator)
    yield (
        "Learned Gram matrices",
        plots.gram_matrices(grams, y[chosen], unit="rising disease progression"),
        f"Similarity of {GRAM_ROWS} training patients, from the kernel of the inputs through each "
        "layer to the kernel that the output is drawn with; the mean of 20 posterior samples. "
        "Patients are ordered by their score, and a map is bright where a layer takes two of them "
        "for alike.",
    )


def page(
    text: str,
    headings: Iterable[str],
    rows: Iterable[Iterable[str]],
    pictures: Iterable[tuple[str, Figure, str]],
) -> str:
    """One HTML page that needs no other file: text, a table, pictures with title and caption.

    >>> "<td>dwp</td><td>&lt; 1</td>" in page("", ["model", "error"], [["dwp", "< 1"]], [])
    True
    """
    title = "Deep Wishart process and deep Gaussian process on the diabetes data"
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "\n".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    figures = []
    for name, figure, caption in pictures:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
        image = base64.b64encode(buffer.getvalue()).decode()
        width = round(96 * figure.get_size_inches()[0])
        figures.append(
            f'<h2>{name}</h2>\n<figure>\n<img alt="{name}" width="{width}" '
            f'src="data:image/png;base64,{image}">\n'
            f"<figcaption>{html.escape(caption)}</figcaption>\n</figure>\n"
        )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p>{html.escape(text)}</p>
<table>
<tr>{head}</tr>
{body}
</table>
<p>The ELBO bounds the log evidence from below, in nats per row and standardised units; higher is
better. Log likelihood (nats per row), RMSE and CRPS are in units of the target, on held-out rows.
This is one split and one seed: small differences do not say which model is better.</p>
{"".join(figures)}</body>
</html>
"""
