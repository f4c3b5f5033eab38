"""The paper's figures from our runs: training curves on boston, and results by depth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from matplotlib import figure
from matplotlib.axes import Axes

from deepwishart.plots.style import GREY, colours, key, new_figure, tidy
from deepwishart.reproduction.published import published
from deepwishart.reproduction.report.reading import PROCESSES, Results
from deepwishart.reproduction.report.statistics import estimate
from deepwishart.reproduction.report.tables import TITLES

CURVES_OF, CURVES_DEPTH = "boston", 5
_COMPARED = ("dwp", "dgp")
_COLOURS = dict(colours(PROCESSES))
_PUBLISHED: dict[str, Any] = {"marker": "D", "linestyle": "--", "markerfacecolor": "white"}
# Of means, with the paper's protocol and with another one.
_STYLES: tuple[dict[str, Any], ...] = (
    {"marker": "s", "linestyle": ":", "markersize": 6},
    {"marker": "o", "linestyle": "-", "markersize": 7},
)


class Figure(NamedTuple):
    """A picture: its name for files, its title, and what matplotlib draws."""

    name: str
    title: str
    picture: figure.Figure


def training_figure(results: Results) -> Figure | None:
    """ELBO against time and against steps, five-layer models on the first split of boston, all rows
    at every step: the figure of the paper's section on run times. ``None`` if there is no such
    run."""
    protocol = results.protocols[0]
    shown = {}
    for process in PROCESSES:
        for run in results.cell(protocol, CURVES_OF, process, CURVES_DEPTH):
            if run.spec.split == 0 and (curve := results.curve(run)):
                shown[process] = curve
    if not shown:
        return None
    picture = new_figure(9.4, 3.5)
    late = [elbo for curve in shown.values() for elbo in curve["elbo"][len(curve["elbo"]) // 5 :]]
    room = 0.06 * (max(late) - min(late)) or 0.05
    for axes, column in zip(picture.subplots(1, 2), ("seconds", "step"), strict=True):
        for process, curve in shown.items():
            axes.plot(curve[column], curve["elbo"], color=_COLOURS[process])
        tidy(axes, title=f"{TITLES['elbo']} in training", xlabel=column)
        axes.set(xlim=(0.0, None), ylim=(min(late) - room, max(late) + room))
        axes.grid(axis="y", linewidth=0.5, alpha=0.5)
    _legend(picture, shown)
    title = f"Training of five-layer models on {CURVES_OF}, split 0, protocol {protocol}"
    return Figure("training", title, picture)


def depth_figures(results: Results) -> tuple[Figure, ...]:
    """ELBO and test log likelihood of DWP and DGP by depth, one figure for each data set that was
    run."""
    found = []
    compared = [run.spec for run in results.runs if run.spec.process in _COMPARED]
    for dataset in sorted({spec.dataset for spec in compared}):
        specs = [spec for spec in compared if spec.dataset == dataset]
        protocols = [p for p in results.protocols if any(spec.protocol == p for spec in specs)]
        depths = sorted({spec.depth for spec in specs})
        picture = new_figure(7.2, 3.0)
        panels = zip(picture.subplots(1, 2), ("elbo", "test_log_likelihood"), strict=True)
        for axes, metric in panels:
            tidy(axes, title=TITLES[metric], xlabel="depth", xticks=depths)
            axes.grid(axis="y", linewidth=0.5, alpha=0.5)
            columns = [(process, name) for process in _COMPARED for name in ("", *protocols)]
            gap = 0.8 / len(columns)
            for number, column in enumerate(columns):
                aside = gap * (number - (len(columns) - 1) / 2)
                _draw(axes, aside, results, metric, dataset, depths, *column)
        styles = {f"protocol {name}": _STYLES[name != "paper"] for name in protocols}
        _legend(picture, _COMPARED, published=_PUBLISHED, **styles)
        found.append(Figure(f"depth-{dataset}", f"{dataset} by depth", picture))
    return tuple(found)


def _draw(
    axes: Axes,
    aside: float,
    results: Results,
    metric: str,
    dataset: str,
    depths: list[int],
    process: str,
    protocol: str,
) -> None:
    """The paper's means, if the protocol is nameless, or ours with their splits as pale points."""
    colour = _COLOURS[process]
    if not protocol:
        papers = {d + aside: p for d in depths if (p := published(metric, dataset, process, d))}
        means = [paper.mean for paper in papers.values()]
        axes.plot(list(papers), means, color=colour, markersize=5, linewidth=0.8, **_PUBLISHED)
        return
    cells = {d + aside: results.by_split(metric, protocol, dataset, process, d) for d in depths}
    splits = [(x, value) for x, cell in cells.items() for value in cell.values()]
    pale: dict[str, Any] = {"alpha": 0.4, "markersize": 4, "markeredgewidth": 0}
    axes.plot([x for x, _ in splits], [y for _, y in splits], "o", color=colour, **pale)
    found = {x: estimate(list(cell.values())) for x, cell in cells.items() if cell}
    means = [each.mean for each in found.values()]
    errors = [each.standard_error or 0.0 for each in found.values()]
    axes.errorbar(list(found), means, errors, color=colour, **_STYLES[protocol != "paper"])


def _legend(picture: figure.Figure, processes: Iterable[str], **more: dict[str, Any]) -> None:
    """One legend for all panels, above them: of processes, and what else there is."""
    keys = [key(p.upper(), marker="o", color=_COLOURS[p]) for p in processes]
    keys += [key(name, color=GREY, **style) for name, style in more.items()]
    style: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "columnspacing": 1.1}
    picture.legend(handles=keys, loc="outside upper right", ncols=len(keys), **style)
