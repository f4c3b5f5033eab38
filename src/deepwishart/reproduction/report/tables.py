"""The paper's three tables with our numbers beside its own, whatever they are printed as.

A table is made of cells that hold numbers; the writers turn cells into text. Every number comes
from the records of runs or from ``published.json``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deepwishart.reproduction.published import published, published_kinds
from deepwishart.reproduction.report.reading import PROCESSES, Results
from deepwishart.reproduction.report.statistics import PairedTest, compare, estimate, paired_test

CLOSE = 0.03  # below the published mean
TITLES = {
    "elbo": "ELBO per data point",
    "test_log_likelihood": "Test log likelihood",
    "seconds_per_epoch": "Run time, seconds per epoch",
}
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
        "whatever else it was doing; the paper used a CPU for boston and a GPU for protein."
    ),
}
_TIMES = "seconds_per_epoch"  # the one metric that is better when it is smaller


@dataclass(frozen=True)
class Cell:
    """A number with its standard error and the number of splits it is a mean of, or a text, which
    is printed in its place, or nothing. Bold is the better one of a pair, or a difference that is
    significant; marks say how a number compares; the role is ``"ours"``, ``"paper"`` or ``""``."""

    value: float | None = None
    standard_error: float | None = None
    count: int | None = None
    decimals: int = 2
    bold: bool = False
    mark: str = ""
    text: str = ""
    role: str = ""

    def number(self) -> str:
        """Value and standard error as text, to as many decimals as the paper prints."""
        if self.text or self.value is None:
            return self.text
        numbers = [self.value] if self.standard_error is None else [self.value, self.standard_error]
        return " ± ".join(f"{number:,.{self.decimals}f}" for number in numbers)


@dataclass(frozen=True)
class Section:
    """A part of the report: what there is to say, a table, whose rows have as many cells as there
    are headings, and figures."""

    name: str
    title: str
    texts: tuple[str, ...] = ()
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    figures: tuple[Any, ...] = ()


def first_cells(dataset: str, depth: int, **texts: str) -> dict[str, Cell]:
    """What a row is about, by heading."""
    named = {heading: Cell(text=text) for heading, text in texts.items()}
    return {"data set": Cell(text=dataset), "depth": Cell(float(depth), decimals=0), **named}


def from_rows(name: str, title: str, about: str, rows: Sequence[dict[str, Cell]]) -> Section:
    """A table of rows, each with its cells by heading."""
    if not rows:
        return Section(name, title, (about, "There are no such runs yet."))
    return Section(name, title, (about,), tuple(rows[0]), tuple(tuple(r.values()) for r in rows))


def make_table(results: Results, metric: str) -> Section:
    """One of the paper's tables: a row for each data set and depth, and for each process the
    published number beside ours, one for each training protocol."""
    ran = [(run.spec.dataset, run.spec.depth) for run in results.runs if metric != _TIMES]
    kinds = sorted({*published_kinds(metric), *ran})
    # A column of ours: always for DWP and DGP, else where there is something to show.
    shown = {(process, protocol) for process in ("dwp", "dgp") for protocol in results.protocols}
    for run in results.runs:
        if run.record.get(metric) is not None and (run.spec.dataset, run.spec.depth) in kinds:
            shown.add((run.spec.process, run.spec.protocol))
    # DIWP is quoted in one of the paper's tables, whether it was run here or not.
    quoted = {p for p in PROCESSES if any(published(metric, d, p, n) for d, n in kinds)}
    rows = []
    for dataset, depth in kinds:
        row = first_cells(dataset, depth)
        pairs = {p: results.pair(metric, p, dataset, depth) for p in results.protocols}
        for process in PROCESSES:
            if process in quoted:
                row[f"{process.upper()} published"] = _paper(metric, dataset, process, depth)
            for protocol in (p for p in results.protocols if (process, p) in shown):
                cell = ours(results, metric, protocol, dataset, process, depth)
                bold = process == _winner(paired_test(*pairs[protocol]), metric)
                row[f"{process.upper()} ({protocol})"] = replace(cell, bold=bold)
        rows.append(row)
    return from_rows(metric, TITLES[metric], _ABOUT[metric], rows)


def count_table(results: Results) -> Section:
    """How many cells of DWP and DGP have a published number, how many of those were run, and how
    they compare with the paper's, see :func:`compare`."""
    rows = []
    for metric, protocol in itertools.product(("elbo", "test_log_likelihood"), results.protocols):
        row = {"number": Cell(text=TITLES[metric]), "protocol": Cell(text=protocol)}
        counts: Counter[str] = Counter()
        for (dataset, depth), process in itertools.product(published_kinds(metric), ("dwp", "dgp")):
            counts["cells"] += 1
            cell = ours(results, metric, protocol, dataset, process, depth)
            paper = published(metric, dataset, process, depth)
            if cell.value is not None and paper is not None:
                counts.update(["run", cell.mark])
                counts["judged"] += bool(cell.mark)
                counts["close"] += cell.value >= paper.mean - CLOSE
        names = ("cells", "run", "judged", "match", "better", "worse", "close")
        rows.append({**row, **{name: Cell(counts[name], decimals=0) for name in names}})
    about = (
        "Published cells of DWP and DGP. Judged are those with a standard error, that is, with "
        f"more than one split; close are means at or above the published mean - {CLOSE}."
    )
    return from_rows("counts", "Counts", about, rows)


def difference(test: PairedTest | None, decimals: int = 2, mark: str = "") -> Cell:
    """A mean difference over common splits, bold where it is significant."""
    if test is None:
        return Cell(text=NOTHING, role="ours")
    return Cell(*test.difference, decimals, test.significant, mark, role="ours")


def ours(results: Results, metric: str, *cell: Any) -> Cell:
    """Our number for a cell: its protocol, data set, process and depth."""
    values = list(results.by_split(metric, *cell).values())
    if not values:
        return Cell(text=NOTHING, role="ours")
    found, paper = estimate(values), published(metric, *cell[1:])
    mark = compare(found, paper, smaller_is_better=metric == _TIMES) if paper else ""
    return Cell(*found, decimals=3 if metric == _TIMES else 2, mark=mark, role="ours")


def _winner(test: PairedTest | None, metric: str) -> str:
    """Which one to print in bold: DWP, DGP or neither."""
    if test is None or not test.significant:
        return ""
    return "dwp" if (test.difference.mean < 0) == (metric == _TIMES) else "dgp"


def _paper(metric: str, dataset: str, process: str, depth: int) -> Cell:
    paper = published(metric, dataset, process, depth)
    if paper is None:
        return Cell(role="paper")
    # Errors of run times are "negligible" in the paper, which prints none.
    error = None if metric == _TIMES else paper.standard_error
    return Cell(paper.mean, error, decimals=paper.decimals, role="paper")
