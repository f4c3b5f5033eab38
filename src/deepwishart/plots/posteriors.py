"""Posteriors over functions of one input: features, functions, predictive bands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from deepwishart.plots import style
from deepwishart.plots.style import BLUE, GREY, as_array, colours, key, new_figure, tidy

_SHOWN = 15  # curves that the eye can still follow
_MEAN: dict[str, Any] = {"linewidth": 1.5, "label": "predictive mean"}
_BAND: dict[str, Any] = {"alpha": 0.25, "linewidth": 0, "label": "two standard deviations"}
_DATA: dict[str, Any] = {"color": "black", "marker": "o", "ls": "", "ms": 3, "label": "data"}


def posterior(
    x: Any,
    samples: Any,
    prediction: tuple[Any, Any],
    *,
    data: tuple[Any, Any] | None = None,
    name: str = "",
    input_label: str = "input",
    target: str = "target",
) -> Figure:
    """Four panels about one model of one input: samples of the first layer's first two features,
    functions drawn jointly, and predictive bands (paper, appendix "Toy comparison").

    Lines of one colour in the first three panels belong to one posterior sample. For a deep
    Wishart process the features are one root of the sampled Gram matrix, in which the second is
    zero at the first inducing point; show ``samples.rotated()``, which has no such point.

    Args:
        x: inputs ``(M,)`` or ``(M, 1)``, in any order.
        samples: what ``model.sample_functions(X)`` returned for these inputs. A deep inverse
            Wishart process has no features to show.
        prediction: predictive mean and standard deviation, ``(M,)`` each.
        data: inputs and targets to show as points.
        name: name of the model.
        input_label, target: input and target with their units, for the axes.

    >>> import torch
    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, width=2, num_inducing=4)
    >>> predicted = model.predict(X, num_samples=5)
    >>> figure = posterior(X, model.sample_functions(X, 3), (predicted.mean, predicted.stddev))
    >>> len(figure.axes), figure.axes[0].get_ylabel()
    (4, 'feature $f_1$')
    """
    shown = _check(x, samples, prediction, name or "the model")
    figure = new_figure(9.0, 5.6)
    panels = figure.subplots(2, 2, sharex=True)
    order = [panels[0, 0], panels[1, 0], panels[0, 1], panels[1, 1]]
    _four_panels(order, shown, data, BLUE, target)
    for axes in panels[1]:
        axes.set_xlabel(input_label)
    order[3].legend(frameon=False, fontsize=9)
    if name:
        figure.suptitle(name, fontsize=12)
    return figure


def compare_posteriors(
    models: Mapping[str, tuple[Any, tuple[Any, Any]]],
    x: Any,
    *,
    data: tuple[Any, Any] | None = None,
    input_label: str = "input",
    target: str = "target",
) -> Figure:
    """The panels of :func:`posterior` for several models, one row each.

    Functions and predictions are on common axes. Features are not: their size means nothing, since
    the next layer's lengthscale makes up for it.

    Args:
        models: by name, ``samples`` and ``prediction`` as :func:`posterior` takes them.
        x, data, input_label, target: as there.

    >>> import torch
    >>> from deepwishart.posterior import FunctionSamples
    >>> x = np.linspace(-1, 1, 5)
    >>> samples = FunctionSamples(torch.randn(3, 5, 1), [torch.randn(3, 5, 2)])
    >>> one = (samples, (x, abs(x) + 1))
    >>> len(compare_posteriors({"dwp": one, "dgp": one}, x).axes)
    8
    """
    figure = new_figure(13.0, 2.9 * len(models) + 0.4)
    panels = figure.subplots(len(models), 4, sharex=True, squeeze=False)
    for row in panels[1:]:
        row[2].sharey(panels[0, 2])
        row[3].sharey(panels[0, 3])
    for row, (name, colour) in zip(panels, colours(models), strict=True):
        _four_panels(row, _check(x, *models[name], name), data, colour, target, prefix=f"{name}: ")
    for axes in panels[-1]:
        axes.set_xlabel(input_label)
    # In no model's colour.
    keys: list[Any] = [key(color=GREY, **_MEAN), Patch(color=GREY, **_BAND)]
    style.legend_below(figure, keys if data is None else [*keys, key(**_DATA)])
    return figure


def _four_panels(
    panels: Any,
    shown: tuple[np.ndarray, ...],
    data: tuple[Any, Any] | None,
    colour: str,
    target: str,
    prefix: str = "",
) -> None:
    first, second, functions, predictive = panels
    x, samples, features, mean, stddev = shown
    curves = (features[..., 0], features[..., 1], samples)
    for axes, values in zip((first, second, functions), curves, strict=True):
        for line, sample in zip(style.shades(min(_SHOWN, len(values))), values, strict=False):
            axes.plot(x, sample, color=line, linewidth=1.0)
    predictive.fill_between(x, mean - 2 * stddev, mean + 2 * stddev, color=colour, **_BAND)
    predictive.plot(x, mean, color=colour, **_MEAN)
    if data is not None:
        for axes in (functions, predictive):
            axes.plot(*_points(data), **_DATA)
    tidy(first, title=f"{prefix}first layer, $f_1$", ylabel="feature $f_1$")
    tidy(second, title=f"{prefix}first layer, $f_2$", ylabel="feature $f_2$")
    tidy(functions, title=f"{prefix}posterior functions", ylabel=target)
    tidy(predictive, title=f"{prefix}prediction", ylabel=target)


def _check(x: Any, samples: Any, prediction: tuple[Any, Any], name: str) -> tuple[np.ndarray, ...]:
    """Inputs ``(M,)`` in order, functions ``(S, M)``, features ``(S, M, width)``, mean and standard
    deviation ``(M,)``."""
    inputs = _one_input(x, "x")
    order = np.argsort(inputs)
    if not samples.layers:
        raise ValueError(f"{name} has depth 1: there are no hidden features to show.")
    features, functions = as_array(samples.layers[0]), as_array(samples.functions)
    if features.shape[1] != len(inputs):
        raise ValueError(
            f"The samples of {name} are over {features.shape[1]} rows, but x has {len(inputs)}: "
            "give the inputs that sample_functions was called with."
        )
    if features.shape[-1] == len(inputs) and np.allclose(features, features.swapaxes(1, 2)):
        raise ValueError(
            f"{name} has Gram matrices in its hidden layers and no features (a deep inverse "
            "Wishart process): look at it with gram_matrices()."
        )
    if features.shape[-1] < 2:
        raise ValueError(f"{name} has width 1: the panels are about two features.")
    if functions.shape[-1] != 1:
        raise ValueError(f"{name} has {functions.shape[-1]} targets; one is needed.")
    moments = [as_array(part) for part in prediction]
    for moment in moments:
        if moment.shape not in (inputs.shape, (*inputs.shape, 1)):
            raise ValueError(
                f"Predictions of {name} have shape {moment.shape}, but x has {len(inputs)} rows "
                "and a band is for one target."
            )
    mean, stddev = (moment.ravel()[order] for moment in moments)
    return inputs[order], functions[:, order, 0], features[:, order], mean, stddev


def _one_input(x: Any, what: str) -> np.ndarray:
    values = as_array(x)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(
            f"Curves over one input need {what} of shape (rows,) or (rows, 1), got "
            f"{values.shape}. For several inputs, predictions() shows rows one by one."
        )
    return values


def _points(data: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    x, y = _one_input(data[0], "the data's inputs"), as_array(data[1])
    if y.size != x.size:
        raise ValueError(f"The data have {x.size} inputs and {y.size} targets.")
    return x, y.ravel()
