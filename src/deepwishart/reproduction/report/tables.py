"""The paper's three tables with our numbers beside its own, whatever they are printed as.

A table is made of cells that hold numbers; the writers turn cells into text. Every number comes
from the records of runs or from ``published.json``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from deepwishart.reproduction.published import METRICS, published, published_kinds
from deepwishart.reproduction.report.reading import Results, process_order
from deepwishart.reproduction.report.statistics import (
    PairedTest,
    compare,
    estimate,
    paired_test,
)

SIGNIFICANCE = 0.05
CLOSE = 0.03  # below the published mean
TITLES = {
    "elbo": "ELBO per data point",
    "test_log_likelihood": "Test log likelihood",
    "seconds_per_epoch": "Run time, seconds per epoch",
}
LABELS = {"dwp": "DWP", "dgp": "DGP", "diwp": "DIWP", "dsvi": "DSVI"}
NOTHING = "—"
_ABOUT = {
    "elbo": "In standardised units of the target, per training point; larger is better.",
    "test_log_likelihood": (
        "In original units of the target, per test point; larger is better. The paper quotes DIWP "
        "without errors and from a different architecture, in its rows of depth 4, so that no mark "
        "can be given."
    ),
    "seconds_per_epoch": (
        "Smaller is better. Run times are those of the machine they were measured on, with "
        "whatever else it was doing; the paper used a CPU for boston and a GPU for protein. "
        "DWP/DGP is the ratio of total times over common splits."
    ),
}
_TIMES = "seconds_per_epoch"  # the one metric that is better when it is smaller


@dataclass(frozen=True)
class Cell:
    """A number, or a text, or nothing.

    Args:
        value: the number; ``None`` for a text or an empty cell.
        standard_error: of the number.
        count: how many splits it is a mean of.
        decimals: how many of them to print.
        bold: the better one of a pair, or a difference that is significant.
        mark: how it compares, see the writers' marks.
        text: of a cell that is not a number, or to be printed instead of the number.
        role: ``"ours"``, ``"paper"`` or ``""``.
    """

    value: float | None = None
    standard_error: float | None = None
    count: int | None = None
    decimals: int = 2
    bold: bool = False
    mark: str = ""
    text: str = ""
    role: str = ""

    def number(self, plus_minus: str = "±") -> str:
        """Value and standard error as text, to as many decimals as the paper prints.

        >>> Cell(-0.3333, 0.0051, 20).number()
        '-0.33 ± 0.01'
        """
        if self.text or self.value is None:
            return self.text
        numbers = [self.value] if self.standard_error is None else [self.value, self.standard_error]
        return f" {plus_minus} ".join(f"{number:,.{self.decimals}f}" for number in numbers)


@dataclass(frozen=True)
class Table:
    """One table and a sentence about it; a row has as many cells as there are headings."""

    name: str
    title: str
    about: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def from_rows(name: str, title: str, about: str, rows: Iterable[dict[str, Cell]]) -> Table:
    """A table of rows, each with its cells by heading."""
    every = list(rows)
    headings = tuple(every[0]) if every else ()
    return Table(name, title, about, headings, tuple(tuple(row.values()) for row in every))


def make_table(results: Results, metric: str) -> Table:
    """One of the paper's tables: a row for each data set and depth, and for each process the
    published number beside ours, one for each training protocol."""
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}.")
    ran = [(run.spec.dataset, run.spec.depth) for run in results.runs if metric != _TIMES]
    kinds = sorted({*published_kinds(metric), *ran})
    # A column of ours: always for DWP and DGP, else where there is something to show.
    shown = {(process, protocol) for process in ("dwp", "dgp") for protocol in results.protocols}
    for run in results.runs:
        if run.value(metric) is not None and (run.spec.dataset, run.spec.depth) in kinds:
            shown.add((run.spec.process, run.spec.protocol))
    # DIWP is quoted in one of the paper's tables, whether it was run here or not.
    quoted = {
        p for p in ("dwp", "dgp", "diwp") if any(published(metric, d, p, n) for d, n in kinds)
    }
    processes = process_order(quoted | {process for process, _ in shown})
    rows = [_row(results, metric, kind, processes, shown, quoted) for kind in kinds]
    return from_rows(metric, TITLES[metric], _ABOUT[metric], rows)


def count_table(results: Results) -> Table:
    """How many cells of DWP and DGP have a published number, how many of those were run, and how
    they compare with the paper's, see :func:`compare`."""
    rows = []
    for metric in ("elbo", "test_log_likelihood"):
        for protocol in results.protocols:
            counts = _counts(results, metric, protocol)
            row = {"number": Cell(text=TITLES[metric]), "protocol": Cell(text=protocol)}
            rows.append({**row, **{name: Cell(n, decimals=0) for name, n in counts.items()}})
    about = (
        "Published cells of DWP and DGP. Judged are those with a standard error, that is, with "
        f"more than one split; close are means at or above the published mean - {CLOSE}."
    )
    return from_rows("counts", "Counts", about, rows)


def difference(test: PairedTest | None, decimals: int = 2, **more: Any) -> Cell:
    """A mean difference over common splits, bold where it is significant."""
    if test is None:
        return Cell(text=NOTHING, role="ours")
    bold = test.p_value is not None and test.p_value < SIGNIFICANCE
    return Cell(*test.difference, decimals=decimals, bold=bold, role="ours", **more)


def ours(results: Results, metric: str, *cell: Any) -> Cell:
    """Our number for a cell: its protocol, data set, process and depth."""
    values = list(results.by_split(metric, *cell).values())
    if not values:
        return Cell(text=NOTHING, role="ours")
    found, paper = estimate(values), published(metric, *cell[1:])
    mark = compare(found, paper, smaller_is_better=metric == _TIMES) if paper else ""
    return Cell(*found, decimals=3 if metric == _TIMES else 2, mark=mark, role="ours")


def _counts(results: Results, metric: str, protocol: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for dataset, depth in published_kinds(metric):
        for process in ("dwp", "dgp"):
            counts["cells"] += 1
            cell = ours(results, metric, protocol, dataset, process, depth)
            paper = published(metric, dataset, process, depth)
            if cell.value is None or paper is None:
                continue
            counts.update(["run", cell.mark])
            counts["judged"] += bool(cell.mark)
            counts["close"] += cell.value >= paper.mean - CLOSE
    names = ("cells", "run", "judged", "match", "better", "worse", "close")
    return {name: counts[name] for name in names}


def _row(
    results: Results,
    metric: str,
    kind: tuple[str, int],
    processes: Iterable[str],
    shown: set[tuple[str, str]],
    quoted: set[str],
) -> dict[str, Cell]:
    """Cells by heading."""
    dataset, depth = kind
    cells = {"data set": Cell(text=dataset), "depth": Cell(float(depth), decimals=0)}
    pairs = {p: results.pair(metric, p, dataset, depth) for p in results.protocols}
    for process in processes:
        label = LABELS.get(process, process)
        if process in quoted:
            cells[f"{label} published"] = _paper(metric, dataset, process, depth)
        for protocol in (p for p in results.protocols if (process, p) in shown):
            cell = ours(results, metric, protocol, dataset, process, depth)
            bold = process == _winner(paired_test(*pairs[protocol]), metric)
            cells[f"{label} ({protocol})"] = replace(cell, bold=bold)
    if metric == _TIMES:
        cells["DWP/DGP published"] = _paper_ratio(dataset, depth)
        for protocol, pair in pairs.items():
            cells[f"DWP/DGP ({protocol})"] = _ratio(*pair)
    return cells


def _winner(test: PairedTest | None, metric: str) -> str:
    """Which one to print in bold: DWP, DGP or neither."""
    if test is None or test.p_value is None or test.p_value >= SIGNIFICANCE:
        return ""
    return "dwp" if (test.difference.mean < 0) == (metric == _TIMES) else "dgp"


def _paper(metric: str, dataset: str, process: str, depth: int) -> Cell:
    paper = published(metric, dataset, process, depth)
    if paper is None:
        return Cell(role="paper")
    # Errors of run times are "negligible" in the paper, which prints none.
    error = None if metric == _TIMES else paper.standard_error
    return Cell(paper.mean, error, decimals=paper.decimals, role="paper")


def _ratio(dwp: dict[int, float], dgp: dict[int, float]) -> Cell:
    common = sorted(dwp.keys() & dgp.keys())
    slower = sum(dgp[split] for split in common)
    if slower <= 0:
        return Cell(text=NOTHING)
    return Cell(sum(dwp[split] for split in common) / slower, count=len(common))


def _paper_ratio(dataset: str, depth: int) -> Cell:
    dwp, dgp = (published(_TIMES, dataset, process, depth) for process in ("dwp", "dgp"))
    return Cell(dwp.mean / dgp.mean if dwp and dgp else None, role="paper")
