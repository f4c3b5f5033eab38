"""What training has changed, layer by layer: from the prior to the posterior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from deepwishart.distributions.bartlett import concentrations
from deepwishart.layers import WishartLayer
from deepwishart.models import DeepKernelProcess
from deepwishart.noise import Noise
from deepwishart.plots.style import GREY, colours, new_figure, tidy

__all__ = [
    "BartlettChange",
    "bartlett_changes",
    "bartlett_parameters",
    "layer_divergences",
    "learned_divergences",
]


@torch.no_grad()
def learned_divergences(
    model: DeepKernelProcess,
    *,
    num_samples: int = 100,
    generator: torch.Generator | None = None,
) -> dict[str, tuple[float, float]]:
    r"""Divergence of every layer's posterior from its prior, in nats, with its standard error:

    .. math:: \mathrm{KL}_\ell = \mathbb E_Q \log \frac{Q(G^\ell_{ii} \mid G^{\ell-1}_{ii})}
              {P(G^\ell_{ii} \mid G^{\ell-1}_{ii})}

    the terms of the ELBO (paper, Algorithm 1), averaged over posterior samples.

    Args:
        model: any process.
        num_samples: posterior samples to average over.
        generator: randomness; PyTorch's default generator if ``None``.

    Returns:
        Mean and standard error by layer, the output layer last.

    >>> import deepwishart as dw
    >>> X = torch.randn(12, 2, dtype=torch.float64)
    >>> model = dw.build("dgp", X, X[:, 0], depth=3, num_inducing=6)
    >>> list(learned_divergences(model, num_samples=5))
    ['layer 1', 'layer 2', 'output']
    """
    if num_samples < 2:
        raise ValueError(f"A standard error needs two or more samples, got {num_samples}.")
    noise = Noise(num_samples, generator, model.dtype, model.device)
    inducing: Any = model.inducing_start()
    found = {}
    names = [*(f"layer {index + 1}" for index in range(len(model.layers))), "output"]
    for name, layer in zip(names, [*model.layers, model.output], strict=True):
        state, log_ratio = layer.sample_inducing(inducing, noise)
        terms = -log_ratio.expand(num_samples)
        found[name] = (float(terms.mean()), float(terms.std()) / num_samples**0.5)
        inducing = state.outputs
    return found


def layer_divergences(models: Mapping[str, Mapping[str, tuple[float, float]]]) -> Figure:
    """How far each layer's posterior is from its prior, one group of bars per layer.

    A layer at zero has learned nothing: it could be left out.

    Args:
        models: for each model, what :func:`learned_divergences` returns.

    >>> figure = layer_divergences({"dwp": {"layer 1": (12.0, 0.3), "output": (30.0, 0.1)}})
    >>> figure.axes[0].get_ylabel()
    'KL(posterior || prior) (nats)'
    """
    layers = list(dict.fromkeys(layer for found in models.values() for layer in found))
    layers = [*(layer for layer in layers if layer != "output"), "output"]  # of the deepest model
    figure = new_figure(max(4.2, 1.5 + 1.1 * len(layers)), 3.6)
    axes = figure.subplots()
    width = 0.8 / len(models)
    for index, (name, colour) in enumerate(colours(models)):
        shown = [(place, *models[name][k]) for place, k in enumerate(layers) if k in models[name]]
        place, mean, error = np.array(shown).T
        place = place + (index - (len(models) - 1) / 2) * width
        style: dict[str, Any] = {
            "color": colour,
            "label": name,
            "error_kw": {"ecolor": "black", "capsize": 2},
        }
        axes.bar(place, mean, 0.9 * width, yerr=2 * error, **style)
    axes.set_xticks(range(len(layers)), layers)
    axes.axhline(0.0, color="black", linewidth=0.8)
    tidy(
        axes,
        title="From prior to posterior (whiskers: two standard errors)",
        xlabel="layer",
        ylabel="KL(posterior || prior) (nats)",
    )
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return figure


class BartlettChange(NamedTuple):
    r"""Posterior parameters of one Wishart layer beside the prior's.

    ``mixing`` is the weight q of the learned scale matrix. ``concentration`` and ``rate`` are
    :math:`\alpha_j / \tfrac12(\nu - j + 1)` and :math:`\beta_j / \tfrac12`, ``(m,)``; ``loc`` and
    ``scale`` are the :math:`\mu_{ij}` and :math:`\sigma_{ij}` below the diagonal, one entry each.
    The prior has 1, 1, 0 and 1, and is what it is whatever q.
    """

    mixing: float
    concentration: np.ndarray
    rate: np.ndarray
    loc: np.ndarray
    scale: np.ndarray


@torch.no_grad()
def bartlett_changes(model: DeepKernelProcess) -> dict[str, BartlettChange]:
    r"""How far the Bartlett parameters of every Wishart layer have moved from the prior's values
    :math:`\alpha_j = (\nu - j + 1)/2, \beta_j = \tfrac12, \mu = 0, \sigma = 1` (paper, Sec. 2.2).

    Args:
        model: a deep Wishart process with at least one hidden layer.

    >>> import deepwishart as dw
    >>> X = torch.randn(12, 2, dtype=torch.float64)
    >>> changes = bartlett_changes(dw.build("dwp", X, X[:, 0], depth=2, num_inducing=6))
    >>> changes["layer 1"].concentration, changes["layer 1"].loc.shape
    (array([1., 1.]), (9,))
    """
    if not len(model.layers):
        raise ValueError("A model of depth 1 has no Wishart layers to look at.")
    found = {}
    for number, layer in enumerate(model.layers, start=1):
        if not isinstance(layer, WishartLayer):
            raise ValueError(
                f"Layer {number} of this {model.process} has no Bartlett parameters, a deep "
                "Wishart process (dwp) has; learned_divergences works for every process."
            )
        prior = concentrations(layer.width, layer.loc.shape[-1], layer.loc)
        rows, columns = torch.ones_like(layer.loc).tril(-1).nonzero(as_tuple=True)
        parts = (
            layer.log_concentration.exp() / prior,
            layer.log_rate.exp() / 0.5,
            layer.loc[rows, columns],
            layer.log_scale.exp()[rows, columns],
        )
        arrays = (part.cpu().numpy().astype(np.float64) for part in parts)
        found[f"layer {number}"] = BartlettChange(float(layer.mixing), *arrays)
    return found


def bartlett_parameters(changes: Mapping[str, BartlettChange]) -> Figure:
    r"""The parameters of :func:`bartlett_changes`, one panel each; the dashed line is the prior.

    Every dot is one parameter and the bar is the median of its layer.

    Args:
        changes: what :func:`bartlett_changes` returns.

    >>> one = BartlettChange(0.1, np.ones(2), np.ones(2), np.zeros(3), np.ones(3))
    >>> [axes.get_ylabel() for axes in bartlett_parameters({"layer 1": one}).axes[:2]]
    ['$q$ (0: prior, 1: learned)', '$\\alpha_j$ / prior value']
    """
    figure = new_figure(2.2 * 5 + 0.5, 3.4)
    panels = figure.subplots(1, 5)
    weight, *others = panels
    numbers = np.arange(1, len(changes) + 1)
    weight.plot(numbers, [one.mixing for one in changes.values()], "o", color=_COLOUR)
    tidy(weight, title="weight of learned scale", ylabel="$q$ (0: prior, 1: learned)", ylim=(0, 1))
    for axes, (field, title, label, prior) in zip(others, _PARTS, strict=True):
        values = [getattr(one, field) for one in changes.values()]
        _scatter(axes, values, prior)
        tidy(axes, title=title, ylabel=label)
        if field != "loc":
            _ratio_scale(axes, np.concatenate(values))
    for axes in panels:
        axes.set_xlabel("hidden layer")
        axes.set_xlim(0.4, len(changes) + 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


_COLOUR = "#0072B2"
_PARTS = (
    ("concentration", "diagonal, shape", r"$\alpha_j$ / prior value", 1.0),
    ("rate", "diagonal, rate", r"$\beta_j$ / prior value", 1.0),
    ("loc", "off-diagonal, mean", r"$\mu_{ij}$ (prior: 0)", 0.0),
    ("scale", "off-diagonal, spread", r"$\sigma_{ij}$ (prior: 1)", 1.0),
)


def _ratio_scale(axes: Axes, values: np.ndarray) -> None:
    """Logarithmic, with plain numbers, and never so narrow that small changes look large."""
    low, high = min(0.4, 0.8 * values.min(initial=1.0)), max(2.5, 1.25 * values.max(initial=1.0))
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    few_decades = high / low < 100
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few_decades else (1.0,)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _scatter(axes: Axes, layers: list[np.ndarray], prior: float) -> None:
    axes.axhline(prior, color=GREY, linestyle="--", linewidth=1)
    for number, values in enumerate(layers, start=1):
        # Spread sideways in a fixed pattern, so that equal values do not hide each other.
        sideways = number + 0.3 * (np.arange(len(values)) * 0.618 % 1.0 - 0.5)
        axes.plot(sideways, values, "o", color=_COLOUR, markersize=3, alpha=0.5)
        if len(values):
            axes.hlines(np.median(values), number - 0.3, number + 0.3, color="black", linewidth=2)
