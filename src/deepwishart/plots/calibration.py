"""Whether probabilities mean what they say."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from deepwishart.metrics import CalibrationCurve
from deepwishart.plots.style import GREY, colours, new_figure, tidy


def calibration(curves: Mapping[str, CalibrationCurve], *, num_rows: int) -> Figure:
    r"""Fraction of targets below their predicted quantile, against the quantile's probability
    :math:`p`.

    A calibrated prediction follows the diagonal. The band is where nine in ten curves of a
    calibrated prediction would pass at any one :math:`p`, :math:`p \pm 1.64 \sqrt{p(1-p)/N}`.

    Args:
        curves: from :func:`deepwishart.metrics.calibration_curve`, by name of the model.
        num_rows: number of targets N behind each curve.

    >>> levels = np.linspace(0.1, 0.9, 9)
    >>> figure = calibration({"dwp": CalibrationCurve(levels, levels**1.1)}, num_rows=50)
    >>> figure.axes[0].get_xlabel()
    'predicted probability'
    """
    figure = new_figure(4.6, 4.4)
    axes = figure.subplots()
    p = np.linspace(0.0, 1.0, 101)
    spread = 1.645 * np.sqrt(p * (1 - p) / num_rows)
    low, high, label = p - spread, p + spread, f"expected scatter of {num_rows} rows"
    axes.fill_between(p, low.clip(0), high.clip(max=1), color=GREY, alpha=0.2, lw=0, label=label)
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="calibrated")
    for marker, (name, colour) in zip(itertools.cycle("osD^v"), colours(curves), strict=False):
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4, "label": name}
        axes.plot(curves[name].levels, curves[name].observed, **style)
    tidy(
        axes,
        title="Calibration",
        xlabel="predicted probability",
        ylabel="fraction of held-out targets below",
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
    )
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    return figure
