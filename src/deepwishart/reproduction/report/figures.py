"""The paper's figures from our runs: training curves on boston, and results by depth."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from deepwishart.plots.style import GREY, tidy
from deepwishart.reproduction.published import Published, published
from deepwishart.reproduction.report.picture import Picture, colour
from deepwishart.reproduction.report.reading import Results, Run, process_order
from deepwishart.reproduction.report.statistics import Estimate, estimate
from deepwishart.reproduction.report.tables import LABELS, TITLES

__all__ = ["Figure", "depth_figures", "training_figure"]

CURVES_OF, CURVES_DEPTH = "boston", 5
_HOLLOW: dict[str, Any] = {"marker": "D", "markerfacecolor": "white", "markersize": 5}
_CURVE_POINTS = 40  # that answer the pointer
_MISSING = (
    f"Training curves of five-layer models on {CURVES_OF} are left out: no such run has finished "
    "and kept its curve."
)


class Figure(NamedTuple):
    """A picture: its name for files, its title, the SVG element, and what to know about it."""

    name: str
    title: str
    svg: str
    caption: str


def training_figure(results: Results) -> Figure | str:
    """ELBO against time and against epochs, five-layer models on one split of boston: the figure of
    the paper's section on run times. The split is the first one of those that most processes have
    been run on. A sentence in place of the figure if there is no such run."""
    by_split: dict[int, dict[str, tuple[Run, dict[str, list[float]]]]] = {}
    for run in results.runs:
        if (run.spec.dataset, run.spec.depth) == (CURVES_OF, CURVES_DEPTH):
            curve = results.curve(run)
            if curve is not None:
                by_split.setdefault(run.spec.split, {}).setdefault(run.spec.process, (run, curve))
    if not by_split:
        return _MISSING
    split = min(by_split, key=lambda number: (-len(by_split[number]), number))
    curves = [by_split[split][process] for process in process_order(by_split[split])]
    late = [value for _, c in curves for value in c["elbo"][len(c["elbo"]) // 5 :]]
    picture = Picture(9.4, 3.5)
    panels = picture.figure.subplots(1, 2)
    for axes, x_label in zip(panels, ("training time in seconds", "epoch"), strict=True):
        for run, curve in curves:
            _draw_curve(picture, axes, run, curve, x_label)
        tidy(axes, title=f"{TITLES['elbo']} in training", xlabel=x_label, ylim=_padded(late))
        axes.set_xlim(left=0.0)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.grid(axis="y", linewidth=0.5, alpha=0.5)
    picture.legend([_key(run.spec.process) for run, _ in curves])
    title = f"Training of five-layer models on {CURVES_OF}, split {split}"
    caption = (
        f"Training curves of {CURVES_DEPTH}-layer models on split {split} of {CURVES_OF}, against "
        "time and against epochs. The curve shows the objective of training, averaged over groups "
        "of steps; while the KL term is annealed, at the start, it is not yet the ELBO, and what "
        "lies outside the frame is cut off."
    )
    return Figure("training", title, picture.svg(title), caption)


def depth_figures(results: Results) -> list[Figure]:
    """ELBO and test log likelihood by depth, one figure for each data set that was run."""
    names = sorted({run.spec.dataset for run in results.runs})
    return [_depth_figure(results, name) for name in names]


def describe(run: Run) -> str:
    """A run in a few lines, for the pointer.

    >>> from deepwishart.reproduction.sweeps import RunSpec
    >>> print(describe(Run(RunSpec("yacht", 3, "dwp", 2), {"elbo": 1.98761})))
    yacht split 3 dwp depth 2
    ELBO per data point 1.9876
    """
    lines = [str(run.spec)]
    for metric, title in TITLES.items():
        value = run.value(metric)
        if value is not None:
            lines.append(f"{title} {value:.4f}")
    seconds, steps = run.value("seconds"), run.value("steps")
    if seconds is not None and steps is not None:
        lines.append(f"{steps:,.0f} steps in {seconds:,.0f} s")
    return "\n".join(lines)


def _draw_curve(
    picture: Picture, axes: Axes, run: Run, curve: Mapping[str, list[float]], x_label: str
) -> None:
    x, y, shade = curve["seconds"], curve["elbo"], colour(run.spec.process)
    if x_label == "epoch":
        x = [(step + 1) / run.batches for step in curve["step"]]
    axes.plot(x, y, color=shade)
    stride = max(1, len(x) // _CURVE_POINTS)
    for number in range(len(x) - 1, -1, -stride):  # from the end, so that the last point is there
        tip = f"{run.spec}\n{x_label} {x[number]:,.6g}: {y[number]:.4f}"
        picture.point(axes, x[number], y[number], tip, color=shade, markersize=9, alpha=0.0)


def _depth_figure(results: Results, dataset: str) -> Figure:
    runs = [run for run in results.runs if run.spec.dataset == dataset]
    processes = process_order(run.spec.process for run in runs)
    picture = Picture(6.4, 2.9)
    panels = picture.figure.subplots(1, 2)
    for axes, metric in zip(panels, ("elbo", "test_log_likelihood"), strict=True):
        _draw_depths(picture, axes, results, runs, metric, processes)
    paper = Line2D([], [], color=GREY, linestyle="", label="paper", **_HOLLOW)
    picture.legend([*map(_key, processes), paper])
    name = "depth-" + re.sub(r"[^A-Za-z0-9_-]+", "_", dataset)
    return Figure(name, dataset, picture.svg(f"{dataset} by depth"), "")


def _draw_depths(
    picture: Picture,
    axes: Axes,
    results: Results,
    runs: Sequence[Run],
    metric: str,
    processes: Sequence[str],
) -> None:
    """Side by side: runs as pale points, means as large ones with error bars, the paper hollow."""
    dataset, depths = runs[0].spec.dataset, sorted({run.spec.depth for run in runs})
    papers = {(p, d): published(metric, dataset, p, d) for p in processes for d in depths}
    values = [(run, value) for run in runs if (value := run.value(metric)) is not None]
    low, high = _limits([value for _, value in values], papers.values())
    tidy(axes, title=TITLES[metric], xlabel="depth", ylim=(low, high), xticks=depths)
    axes.set_xlim(depths[0] - 0.6, depths[-1] + 0.6)
    axes.grid(axis="y", linewidth=0.5, alpha=0.5)
    gap = 0.36 if len(processes) <= 2 else 0.92 / len(processes)
    first = -gap * (len(processes) - 1) / 2
    place = {process: first + gap * number for number, process in enumerate(processes)}

    def draw(process: str, x: float, y: float, tip: str, **style: Any) -> None:
        inside = min(max(y, low), high)  # those far outside are on the edge
        style = {"color": colour(process), **style}
        picture.point(axes, x + place[process], inside, tip, **style)

    for run, value in values:
        x = run.spec.depth - gap / 3 + 0.06 * (run.spec.split * 0.618 % 1.0 - 0.5)
        draw(run.spec.process, x, value, describe(run), markersize=4, alpha=0.4)
    for (process, depth), paper in papers.items():
        if paper is not None:
            tip = _tip(f"{_label(process)} depth {depth}, {dataset}, in the paper", metric, paper)
            draw(process, depth + gap / 3, paper.mean, tip, **_HOLLOW)
    for process in processes:
        cells = {depth: results.by_split(metric, dataset, process, depth) for depth in depths}
        means = {depth: estimate(list(cell.values())) for depth, cell in cells.items() if cell}
        xs = [depth + place[process] for depth in means]
        ys = [mean.mean for mean in means.values()]
        errors = [mean.standard_error or 0.0 for mean in means.values()]
        axes.errorbar(xs, ys, errors, color=colour(process), zorder=1.9)
        for depth, mean in means.items():
            what = f"{_label(process)} depth {depth}, {dataset}, mean of splits: {mean.num_splits}"
            draw(process, depth, mean.mean, _tip(what, metric, mean), markersize=7)


def _tip(what: str, metric: str, number: Estimate | Published) -> str:
    decimals = number.decimals if isinstance(number, Published) else 4
    error = number.standard_error
    tail = "" if error is None else f" ± {error:.{decimals}f}"
    return f"{what}\n{TITLES[metric]} {number.mean:.{decimals}f}{tail}"


def _limits(values: Sequence[float], papers: Iterable[Published | None]) -> tuple[float, float]:
    """From lowest to highest, without the few runs that would hide all others."""
    ordered = sorted(values)
    fixed = [paper.mean for paper in papers if paper is not None]
    if len(ordered) >= 8:
        low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
        room = 2.0 * (high - low)
        ordered = [value for value in ordered if low - room <= value <= high + room]
    return _padded([*ordered, *fixed] or [0.0, 1.0])


def _padded(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.05 * max(1.0, abs(low))
    return low - room, high + room


def _label(process: str) -> str:
    return LABELS.get(process, process)


def _key(process: str) -> Line2D:
    return Line2D([], [], marker="o", color=colour(process), label=_label(process))
