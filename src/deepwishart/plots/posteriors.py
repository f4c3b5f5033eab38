"""Posteriors over functions of one input: features, functions, predictive bands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from deepwishart.plots import style
from deepwishart.plots.style import GREY, as_array, colours, key, new_figure, tidy

_SHOWN = 15  # curves that the eye can still follow
_MEAN: dict[str, Any] = {"linewidth": 1.5, "label": "predictive mean"}
_BAND: dict[str, Any] = {"alpha": 0.25, "linewidth": 0, "label": "two standard deviations"}
_DATA: dict[str, Any] = {"color": "black", "marker": "o", "ls": "", "ms": 3, "label": "data"}


def posteriors(
    models: Mapping[str, tuple[Any, tuple[Any, Any]]],
    x: Any,
    *,
    data: tuple[Any, Any] | None = None,
    input_label: str = "input",
    target: str = "target",
) -> Figure:
    """Four panels about each model of one input: samples of the first layer's first two features,
    functions drawn jointly, and predictive bands (paper, appendix "Toy comparison").

    Lines of one colour in the first three panels belong to one posterior sample. For a deep
    Wishart process the features are one root of the sampled Gram matrix, in which the second is
    zero at the first inducing point; show ``samples.rotated()``, which has no such point. Functions
    and predictions of several models are on common axes. Features are not: their size means
    nothing, since the next layer's lengthscale makes up for it.

    Args:
        models: by name, what ``model.sample_functions(X)`` returned for the inputs ``x``, and
            predictive mean and standard deviation there, ``(M,)`` each. A deep inverse Wishart
            process has no features to show.
        x: inputs ``(M,)`` or ``(M, 1)``, in any order.
        data: inputs and targets to show as points.
        input_label, target: input and target with their units, for the axes.

    >>> import torch
    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, width=2, num_inducing=4)
    >>> predicted = model.predict(X, num_samples=5)
    >>> shown = model.sample_functions(X, 3), (predicted.mean, predicted.stddev)
    >>> figure = posteriors({"dwp": shown}, X)
    >>> len(figure.axes), figure.axes[0].get_ylabel()
    (4, 'feature $f_1$')
    """
    lines, columns = (2, 2) if len(models) == 1 else (len(models), 4)
    figure = new_figure(9.0 if columns == 2 else 13.0, 2.9 * lines + 0.4)
    panels = figure.subplots(lines, columns, sharex=True, squeeze=False)
    rows = panels.reshape(-1, 4)
    for row in rows[1:]:
        row[2].sharey(rows[0, 2])
        row[3].sharey(rows[0, 3])
    for row, (name, colour) in zip(rows, colours(models), strict=True):
        inputs, functions, features, mean, stddev = _check(x, *models[name], name)
        curves = (features[..., 0], features[..., 1], functions)
        for axes, values in zip(row, curves, strict=False):
            for line, sample in zip(style.shades(min(_SHOWN, len(values))), values, strict=False):
                axes.plot(inputs, sample, color=line, linewidth=1.0)
        row[3].fill_between(inputs, mean - 2 * stddev, mean + 2 * stddev, color=colour, **_BAND)
        row[3].plot(inputs, mean, color=colour, **_MEAN)
        for axes in row[2:]:
            axes.plot(*(as_array(part).ravel() for part in data or ((), ())), **_DATA)
        tidy(row[0], title=f"{name}: first layer, $f_1$", ylabel="feature $f_1$")
        tidy(row[1], title=f"{name}: first layer, $f_2$", ylabel="feature $f_2$")
        tidy(row[2], title=f"{name}: posterior functions", ylabel=target)
        tidy(row[3], title=f"{name}: prediction", ylabel=target)
    for axes in panels[-1]:
        axes.set_xlabel(input_label)
    # In no model's colour.
    keys: list[Any] = [key(color=GREY, **_MEAN), Patch(color=GREY, **_BAND)]
    style.legend_below(figure, keys if data is None else [*keys, key(**_DATA)])
    return figure


def _check(x: Any, samples: Any, prediction: tuple[Any, Any], name: str) -> tuple[np.ndarray, ...]:
    """Inputs ``(M,)`` in order, functions ``(S, M)``, features ``(S, M, width)``, mean and standard
    deviation ``(M,)``."""
    inputs, functions, *moments = (as_array(part) for part in (x, samples.functions, *prediction))
    order = np.argsort(inputs.ravel())
    shapes = [functions.shape[1:], *(part.reshape(len(part), -1).shape for part in moments)]
    if any(shape != (inputs.size, 1) for shape in shapes):
        raise ValueError(
            f"Curves are about one input and one target, but x has shape {inputs.shape}, and "
            f"functions, mean and standard deviation of {name} have {shapes} at each sample."
        )
    features = as_array(samples.layers[0]) if samples.layers else functions[..., :0]
    gram = features.shape[-1] == len(order) and np.allclose(features, features.swapaxes(1, 2))
    if gram or features.shape[-1] < 2:
        raise ValueError(
            f"{name} does not have two hidden features: a model of depth 1 has none, a layer of "
            "width 1 has one, and a deep inverse Wishart process has Gram matrices only."
        )
    mean, stddev = (part.ravel()[order] for part in moments)
    return inputs.ravel()[order], functions[:, order, 0], features[:, order], mean, stddev
