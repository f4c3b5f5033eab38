"""The paper's figures from our runs: training curves on boston, and results by depth."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from deepwishart.plots.style import GREY, key, tidy
from deepwishart.reproduction.published import Published, published
from deepwishart.reproduction.report.picture import Picture, colour
from deepwishart.reproduction.report.reading import Results, Run, process_order
from deepwishart.reproduction.report.statistics import Estimate, estimate
from deepwishart.reproduction.report.tables import TITLES, label

CURVES_OF, CURVES_DEPTH = "boston", 5
_HOLLOW: dict[str, Any] = {"marker": "D", "markerfacecolor": "white", "markersize": 5}
_CURVE_POINTS = 40  # that answer the pointer
# Of means, with the paper's protocol and with another one.
_STYLES: tuple[dict[str, Any], ...] = (
    {"marker": "s", "linestyle": ":", "markersize": 6},
    {"marker": "o", "linestyle": "-", "markersize": 7},
)


class Figure(NamedTuple):
    """A picture: its name for files, its title, the SVG element, and what to know about it."""

    name: str
    title: str
    svg: str
    caption: str


def training_figure(results: Results) -> Figure | None:
    """ELBO against time and against epochs, five-layer models on one split of boston: the figure of
    the paper's section on run times. The split is the first one of those that most processes have
    been run on, the protocol the first that has any. ``None`` if there is no such run."""
    by_split: dict[tuple[str, int], dict[str, tuple[Run, dict[str, list[float]]]]] = {}
    for run in results.runs:
        if (run.spec.dataset, run.spec.depth) == (CURVES_OF, CURVES_DEPTH):
            curve, place = results.curve(run), (run.spec.protocol, run.spec.split)
            if curve is not None:
                by_split.setdefault(place, {}).setdefault(run.spec.process, (run, curve))
    if not by_split:
        return None
    rank = results.protocols.index
    protocol, split = min(by_split, key=lambda p: (rank(p[0]), -len(by_split[p]), p[1]))
    chosen = by_split[protocol, split]
    curves = [chosen[process] for process in process_order(chosen)]
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
    picture.legend([run.spec.process for run, _ in curves])
    title = f"Training of five-layer models on {CURVES_OF}, split {split}, protocol {protocol}"
    caption = (
        "The objective of training, averaged over groups of steps, against time and against "
        "epochs. While the KL term is annealed, at the start, it is not yet the ELBO, and what "
        "lies outside the frame is cut off."
    )
    return Figure("training", title, picture.svg(title), caption)


def depth_figures(results: Results) -> tuple[Figure, ...]:
    """ELBO and test log likelihood by depth, one figure for each data set that was run."""
    names = sorted({run.spec.dataset for run in results.runs})
    return tuple(_depth_figure(results, name) for name in names)


def describe(run: Run) -> str:
    """A run in a few lines, for the pointer."""
    values = ((title, run.value(metric)) for metric, title in TITLES.items())
    lines = [str(run.spec), *(f"{title} {v:.4f}" for title, v in values if v is not None)]
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
    protocols = [p for p in results.protocols if any(run.spec.protocol == p for run in runs)]
    columns = [(process, name) for process in processes for name in ("", *protocols)]
    picture = Picture(7.2, 3.0)
    panels = picture.figure.subplots(1, 2)
    for axes, metric in zip(panels, ("elbo", "test_log_likelihood"), strict=True):
        _draw_depths(picture, axes, results, runs, metric, columns)
    styles = {f"protocol {name}": _STYLES[name != "paper"] for name in protocols}
    styles = {"published": {**_HOLLOW, "linestyle": ""}, **styles}
    more = [key(name, color=GREY, **style) for name, style in styles.items()]
    picture.legend(processes, more)
    name = "depth-" + re.sub(r"[^A-Za-z0-9_-]+", "_", dataset)
    return Figure(name, dataset, picture.svg(f"{dataset} by depth"), "")


def _draw_depths(
    picture: Picture,
    axes: Axes,
    results: Results,
    runs: Sequence[Run],
    metric: str,
    columns: Sequence[tuple[str, str]],
) -> None:
    """Side by side for each process: the paper hollow, then each protocol, with its runs as pale
    points and their means as larger ones with error bars. Columns are processes and protocols, the
    paper's being nameless."""
    dataset, depths = runs[0].spec.dataset, sorted({run.spec.depth for run in runs})
    papers = {(p, d): published(metric, dataset, p, d) for p, _ in columns for d in depths}
    values = [(run, value) for run in runs if (value := run.value(metric)) is not None]
    low, high = _limits([value for _, value in values], papers.values())
    tidy(axes, title=TITLES[metric], xlabel="depth", ylim=(low, high), xticks=depths)
    axes.set_xlim(depths[0] - 0.6, depths[-1] + 0.6)
    axes.grid(axis="y", linewidth=0.5, alpha=0.5)
    gap = 0.8 / len(columns)
    place = {column: gap * (n - (len(columns) - 1) / 2) for n, column in enumerate(columns)}

    def draw(process: str, x: float, y: float, tip: str, **style: Any) -> None:
        inside = min(max(y, low), high)  # those far outside are on the edge
        picture.point(axes, x, inside, tip, **{"color": colour(process), **style})

    for run, value in values:
        x = run.spec.depth + place[run.spec.process, run.spec.protocol]
        aside = gap * (0.2 * (run.spec.split * 0.618 % 1.0) - 0.5)
        draw(run.spec.process, x + aside, value, describe(run), markersize=4, alpha=0.4)
    for (process, depth), paper in papers.items():
        if paper is not None:
            tip = _tip(f"{label(process)} depth {depth}, {dataset}, published", metric, paper)
            draw(process, depth + place[process, ""], paper.mean, tip, **_HOLLOW)
    for process, protocol in columns:
        if not protocol:
            told = [(d, paper.mean) for d in depths if (paper := papers[process, d])]
            xs = [depth + place[process, ""] for depth, _ in told]
            axes.plot(xs, [y for _, y in told], "--", color=colour(process), lw=0.8, alpha=0.6)
            continue
        cells = {d: results.by_split(metric, protocol, dataset, process, d) for d in depths}
        means = {depth: estimate(list(cell.values())) for depth, cell in cells.items() if cell}
        xs = [depth + place[process, protocol] for depth in means]
        errors = [mean.standard_error or 0.0 for mean in means.values()]
        style = _STYLES[protocol != "paper"]
        line: dict[str, Any] = {"linestyle": style["linestyle"], "zorder": 1.9}
        ys = [mean.mean for mean in means.values()]
        axes.errorbar(xs, ys, errors, color=colour(process), **line)
        for x, (depth, mean) in zip(xs, means.items(), strict=True):
            splits = f"{protocol} protocol, mean of splits: {mean.num_splits}"
            what = f"{label(process)} depth {depth}, {dataset}, {splits}"
            draw(process, x, mean.mean, _tip(what, metric, mean), **style)


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
