"""The paper's figures from our runs: training curves on boston, and results by depth."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from deepwishart.report.charts import Frame, colour, picture
from deepwishart.report.published import Published, published
from deepwishart.report.reading import Results, Run, process_order
from deepwishart.report.statistics import Estimate, estimate
from deepwishart.report.tables import LABELS, TITLES

__all__ = ["Figure", "depth_figures", "training_figure"]

CURVES_OF, CURVES_DEPTH = "boston", 5
_CURVE_POINTS = 120  # that answer the pointer
_MISSING = (
    f"Training curves of five-layer models on {CURVES_OF} are left out: no such run has finished "
    "and kept its curve."
)


class Figure(NamedTuple):
    """A picture.

    Args:
        name: for files.
        title: in words.
        svg: the picture.
        caption: what to know about it.
    """

    name: str
    title: str
    svg: str
    caption: str


def training_figure(results: Results) -> Figure | str:
    """ELBO against time and against epochs, five-layer models on one split of boston.

    This is the figure of the paper's section on run times. The split is the one that most
    processes have been run on, the first one of those.

    Args:
        results: our runs.

    Returns:
        The figure; a sentence in its place if there is no such run.

    >>> import tempfile
    >>> from deepwishart.report import read_results
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     training_figure(read_results(directory))
    'Training curves of five-layer models on boston are left out: ...'
    """
    by_split: dict[int, dict[str, Run]] = {}
    for run in results.runs:
        if (run.spec.dataset, run.spec.depth) == (CURVES_OF, CURVES_DEPTH) and results.curve(run):
            by_split.setdefault(run.spec.split, {}).setdefault(run.spec.process, run)
    if not by_split:
        return _MISSING
    split = min(by_split, key=lambda number: (-len(by_split[number]), number))
    runs = [by_split[split][process] for process in process_order(by_split[split])]
    curves = [(run, curve) for run in runs if (curve := results.curve(run)) is not None]
    late = [value for _, c in curves for value in c["elbo"][len(c["elbo"]) // 5 :]]
    y_range = _padded(late)
    frames = []
    for number, (x_label, left) in enumerate((("training time in seconds", 62), ("epoch", 528))):
        lines = [
            (run, list(zip(_places(run, curve, x_label), curve["elbo"], strict=True)))
            for run, curve in curves
        ]
        end = max(points[-1][0] for _, points in lines)
        frame = Frame(
            (left, 46, 380, 250),
            (0.0, end),
            y_range,
            title=f"{TITLES['elbo']} in training",
            x_label=x_label,
            name=f"training-{number}",
        )
        for run, points in lines:
            _draw_curve(frame, run, points, x_label)
        frames.append(frame)
    legend = {_label(run.spec.process): colour(run.spec.process) for run in runs}
    title = f"Training of five-layer models on {CURVES_OF}, split {split}"
    caption = (
        f"Training curves of {CURVES_DEPTH}-layer models on split {split} of {CURVES_OF}, against "
        "time and against epochs. The curve shows the objective of training, averaged over groups "
        "of steps; while the KL term is annealed, at the start, it is not yet the ELBO, and what "
        "lies below the frame is cut off."
    )
    return Figure("training", title, picture(frames, (940, 340), legend, title), caption)


def depth_figures(results: Results) -> list[Figure]:
    """ELBO and test log likelihood by depth, one figure for each data set that was run.

    Args:
        results: our runs.

    >>> import tempfile
    >>> from deepwishart.report import read_results
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     depth_figures(read_results(directory))
    []
    """
    datasets = sorted({run.spec.dataset for run in results.runs})
    return [_depth_figure(results, name, number) for number, name in enumerate(datasets)]


def _depth_figure(results: Results, dataset: str, number: int) -> Figure:
    runs = [run for run in results.runs if run.spec.dataset == dataset]
    processes = process_order(run.spec.process for run in runs)
    depths = sorted({run.spec.depth for run in runs})
    frames = [
        _depth_frame(results, runs, metric, processes, depths, f"depth-{number}-{metric}", left)
        for metric, left in (("elbo", 56), ("test_log_likelihood", 362))
    ]
    legend = {_label(process): colour(process) for process in processes} | {"paper": "#555555"}
    name = "depth-" + re.sub(r"[^A-Za-z0-9_-]+", "_", dataset)
    return Figure(name, dataset, picture(frames, (620, 275), legend, f"{dataset} by depth"), "")


def _depth_frame(
    results: Results,
    runs: Sequence[Run],
    metric: str,
    processes: Sequence[str],
    depths: Sequence[int],
    name: str,
    left: float,
) -> Frame:
    """Side by side: runs as pale points, means as large ones with error bars, the paper hollow."""
    kinds = list(itertools.product(processes, depths))
    dataset = runs[0].spec.dataset
    papers = {(p, d): published(metric, dataset, p, d) for p, d in kinds}
    frame = Frame(
        (left, 50, 240, 180),
        (depths[0] - 0.6, depths[-1] + 0.6),
        _limits([v for run in runs if (v := run.value(metric)) is not None], papers.values()),
        title=TITLES[metric],
        x_label="depth",
        x_ticks=depths,
        name=name,
    )
    gap = 0.36 if len(processes) <= 2 else 0.92 / len(processes)
    for number, process in enumerate(processes):
        shift = gap * (number - (len(processes) - 1) / 2)
        for run in runs:
            value = run.value(metric)
            if run.spec.process == process and value is not None:
                jitter = 0.06 * (run.spec.split * 0.618 % 1.0) - 0.03
                x = run.spec.depth + shift - gap / 3 + jitter
                frame.point(x, value, colour(process), describe(run))
        for depth in depths:
            paper = papers[process, depth]
            if paper is not None:
                tip = _tip(
                    f"{_label(process)} depth {depth}, {dataset}, in the paper", metric, paper
                )
                x = depth + shift + gap / 3
                frame.point(x, paper.mean, colour(process), tip, kind="paper")
        cells = {d: results.by_split(metric, dataset, process, d) for d in depths}
        means = {d: estimate(list(values.values())) for d, values in cells.items() if values}
        frame.line([(d + shift, mean.mean) for d, mean in means.items()], colour(process))
        for d, mean in means.items():
            spread = mean.standard_error or 0.0
            frame.error_bar(d + shift, mean.mean - spread, mean.mean + spread, colour(process))
            what = f"{_label(process)} depth {d}, {dataset}, mean of splits: {mean.num_splits}"
            frame.point(
                d + shift, mean.mean, colour(process), _tip(what, metric, mean), kind="mean"
            )
    return frame


def _tip(what: str, metric: str, number: Estimate | Published) -> str:
    decimals = number.decimals if isinstance(number, Published) else 4
    error = number.standard_error
    tail = "" if error is None else f" ± {error:.{decimals}f}"
    return f"{what}\n{TITLES[metric]} {number.mean:.{decimals}f}{tail}"


def describe(run: Run) -> str:
    """A run in a few lines, for the pointer.

    >>> from deepwishart.experiments import RunSpec
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
    frame: Frame, run: Run, points: Sequence[tuple[float, float]], x_label: str
) -> None:
    frame.line(points, colour(run.spec.process))
    stride = max(1, len(points) // _CURVE_POINTS)
    for x, y in points[::-1][::stride][::-1]:  # from the end, so that the last point is there
        tip = f"{run.spec}\n{x_label} {x:,.6g}: {y:.4f}"
        frame.point(x, y, colour(run.spec.process), tip, kind="hidden")


def _places(run: Run, curve: dict[str, list[float]], x_label: str) -> list[float]:
    if x_label == "epoch":
        return [(step + 1) / run.batches for step in curve["step"]]
    return curve["seconds"]


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
    room = 0.06 * (high - low)
    return low - room, high + room


def _label(process: str) -> str:
    return LABELS.get(process, process)
