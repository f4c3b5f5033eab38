"""What each layer has learned: its Gram matrix over data rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from deepwishart.kernels import GramInducing
from deepwishart.layers import InverseWishartLayer
from deepwishart.model import DeepKernelProcess
from deepwishart.plots.style import MAP, new_figure, tidy


@torch.no_grad()
def layer_grams(
    model: DeepKernelProcess,
    X: Tensor,
    *,
    num_samples: int = 20,
    generator: torch.Generator | None = None,
) -> dict[str, np.ndarray]:
    r"""Posterior means of the matrices that data flow through,
    :math:`K(X) \to G_1 \to \dots \to G_L \to K(G_L)`, each over the rows of ``X``.

    Args:
        model: any process with at least one hidden layer.
        X: inputs ``(N, num_features)``, standardised as in training; the cost is cubic in N.
        num_samples: posterior samples to average over.
        generator: randomness; PyTorch's default generator if ``None``.

    Returns:
        Matrices ``(N, N)`` by name, in order.

    >>> import deepwishart as dw
    >>> X = torch.randn(12, 2, dtype=torch.float64)
    >>> model = dw.build("dwp", X, X[:, 0], depth=3, num_inducing=6)
    >>> list(layer_grams(model, X, num_samples=2))
    ['input kernel', 'layer 1', 'layer 2', 'output kernel']
    """
    if not len(model.layers):
        raise ValueError("A model of depth 1 has no hidden layers to look at.")
    first: Any = model.layers[0]
    gram = first.kernel.square(model.scale_inputs(model.check_inputs(X)))
    found = {"input kernel": gram}
    samples = model.sample_functions(X, num_samples, generator).layers
    for number, (layer, sample) in enumerate(zip(model.layers, samples, strict=True), start=1):
        gram = sample if isinstance(layer, InverseWishartLayer) else sample @ sample.mT
        found[f"layer {number}"] = gram.mean(0)
    found["output kernel"] = model.output.priors[0].kernel.square(GramInducing(gram)).mean(0)
    return {name: matrix.cpu().numpy() for name, matrix in found.items()}


def gram_matrices(
    models: Mapping[str, Mapping[str, np.ndarray]], target: np.ndarray, *, unit: str = "target"
) -> Figure:
    """Heat maps of matrices over the same rows, one line of maps per model.

    Rows and columns are in the order of the target: where a layer has learned which rows are alike
    in it, the map is bright along the diagonal and dark far from it.

    Args:
        models: for each model, matrices ``(N, N)`` by name, as :func:`layer_grams` gives them.
        target: target of the rows ``(N,)``.
        unit: what orders the rows, for the axis.

    >>> gram = np.eye(4)
    >>> figure = gram_matrices({"dwp": {"layer 1": gram}}, np.array([3.0, 1.0, 2.0, 0.0]))
    >>> figure.axes[0].get_title(loc="left")
    'dwp: layer 1'
    """
    order = np.argsort(target)
    for name, matrices in models.items():
        for layer, matrix in matrices.items():
            if np.shape(matrix) != (len(order), len(order)):
                raise ValueError(
                    f"{name}: {layer} has shape {np.shape(matrix)}, but there are {len(order)} "
                    "targets: give the targets of the rows that the matrices are over."
                )
    columns = max(len(matrices) for matrices in models.values())
    figure = new_figure(2.6 * columns + 0.4, 2.5 * len(models) + 0.4)
    panels = figure.subplots(len(models), columns, squeeze=False)
    for line, (name, matrices) in zip(panels, models.items(), strict=True):
        for axes in line[len(matrices) :]:
            axes.set_axis_off()
        for axes, (layer, matrix) in zip(line, matrices.items(), strict=False):
            _heat_map(figure, axes, np.asarray(matrix)[np.ix_(order, order)])
            tidy(axes, title=f"{name}: {layer}")
            axes.spines[["top", "right"]].set_visible(True)
    figure.supxlabel(f"rows, by {unit}", fontsize=10)
    figure.supylabel(f"rows, by {unit}", fontsize=10)
    return figure


def _heat_map(figure: Figure, axes: Axes, matrix: np.ndarray) -> None:
    low, high = np.quantile(matrix, [0.01, 0.99])  # one odd row would darken all others
    limits = {"vmin": low, "vmax": max(high, low + 1e-12)}
    image = axes.imshow(matrix, cmap=MAP, aspect="equal", interpolation="nearest", **limits)
    axes.set_xticks([])
    axes.set_yticks([])
    bar = figure.colorbar(image, ax=axes, shrink=0.85, ticks=MaxNLocator(4))
    bar.ax.tick_params(labelsize=8)
