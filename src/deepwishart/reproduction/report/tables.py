"""The paper's three tables with our numbers beside its own, whatever they are printed as.

A table is made of cells that hold numbers; the writers of Markdown, LaTeX and HTML turn cells into
text. Every number comes from the records of runs or from ``published.json``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from deepwishart.reproduction.published import METRICS, published, published_kinds
from deepwishart.reproduction.report.reading import Results
from deepwishart.reproduction.report.statistics import PairedTest, compare, estimate, paired_test

__all__ = ["LABELS", "TITLES", "Cell", "Table", "make_table", "summarise"]

SIGNIFICANCE = 0.05
TITLES = {
    "elbo": "ELBO per data point",
    "test_log_likelihood": "Test log likelihood",
    "seconds_per_epoch": "Run time, seconds per epoch",
}
LABELS = {"dwp": "DWP", "dgp": "DGP", "diwp": "DIWP", "dsvi": "DSVI"}
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
_NOTHING = "—"
_TIMES = "seconds_per_epoch"  # the one metric that is better when it is smaller


@dataclass(frozen=True)
class Cell:
    """A number, or a text, or nothing.

    Args:
        value: the number; ``None`` for a text or an empty cell.
        standard_error: of the number.
        count: how many splits it is a mean of.
        decimals: how many of them to print.
        bold: the better one of a pair.
        mark: how it compares with the paper: ``"match"``, ``"better"``, ``"worse"`` or ``""``.
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
        return f" {plus_minus} ".join(f"{number:.{self.decimals}f}" for number in numbers)


@dataclass(frozen=True)
class Table:
    """One table and a sentence about it; a row has as many cells as there are headings."""

    metric: str
    title: str
    about: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def make_table(results: Results, metric: str) -> Table:
    """One of the paper's tables: a row for each data set and depth."""
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}.")
    ran = ((run.spec.dataset, run.spec.depth) for run in results.runs)
    kinds = sorted({*published_kinds(metric), *ran})
    # A column of ours: always for DWP and DGP, else where there is something to show.
    shown = ["dwp", "dgp"]
    shown += [run.spec.process for run in results.runs if run.value(metric) is not None]
    processes = [process for process in results.processes if process in shown]
    if metric == "test_log_likelihood" and "diwp" not in processes:
        processes.insert(2, "diwp")  # quoted in the paper's table, whether it was run here or not
    quoted = [p for p in processes if any(published(metric, d, p, n) for d, n in kinds)]
    rows = [_row(results, metric, kind, processes, shown, quoted) for kind in kinds]
    cells = tuple(tuple(row.values()) for row in rows)
    return Table(metric, TITLES[metric], _ABOUT[metric], tuple(rows[0]), cells)


def summarise(results: Results, *metrics: str) -> str:
    """How many cells of DWP and DGP have a published number, how many of those were run, and how
    they compare with the paper's, see :func:`compare`."""
    counts: Counter[str] = Counter()
    for metric in metrics:
        for dataset, depth in published_kinds(metric):
            for process in ("dwp", "dgp"):
                cell = _ours(results, metric, dataset, process, depth)
                counts.update(["cells"] if cell.value is None else ["cells", "run", cell.mark])
    unjudged = f"; {counts['']} cannot be judged, for want of a standard error"
    return (
        f"{counts['run']} of {counts['cells']} cells run, {counts['match']} matched, "
        f"{counts['better']} better, {counts['worse']} worse{unjudged * bool(counts[''])}."
    )


def _row(
    results: Results,
    metric: str,
    kind: tuple[str, int],
    processes: list[str],
    shown: list[str],
    quoted: list[str],
) -> dict[str, Cell]:
    """Cells by heading."""
    dataset, depth = kind
    dwp, dgp = (results.by_split(metric, dataset, p, depth) for p in ("dwp", "dgp"))
    test = paired_test(dwp, dgp)
    winner = _winner(test, metric)
    cells = {"data set": Cell(text=dataset), "depth": Cell(float(depth), decimals=0)}
    for process in processes:
        label = LABELS.get(process, process)
        if process in shown:
            cells[label] = _ours(results, metric, dataset, process, depth, process == winner)
        if process in quoted:
            cells[f"{label} paper"] = _paper(metric, dataset, process, depth)
        if process == "dgp":
            cells["paired p (splits)"] = _p_value(test)
        if process == "dgp" and metric == _TIMES:
            cells["DWP/DGP"] = _ratio(dwp, dgp)
            cells["DWP/DGP paper"] = _paper_ratio(dataset, depth)
    return cells


def _winner(test: PairedTest | None, metric: str) -> str:
    """Which one to print in bold: DWP, DGP or neither."""
    if test is None or test.p_value is None or test.p_value >= SIGNIFICANCE:
        return ""
    return "dwp" if (test.difference < 0) == (metric == _TIMES) else "dgp"


def _ours(
    results: Results, metric: str, dataset: str, process: str, depth: int, bold: bool = False
) -> Cell:
    values = list(results.by_split(metric, dataset, process, depth).values())
    if not values:
        return Cell(text=_NOTHING, role="ours")
    ours, paper = estimate(values), published(metric, dataset, process, depth)
    mark = compare(ours, paper, smaller_is_better=metric == _TIMES) if paper else ""
    decimals = 3 if metric == _TIMES else 2
    return Cell(*ours, decimals=decimals, bold=bold, mark=mark, role="ours")


def _paper(metric: str, dataset: str, process: str, depth: int) -> Cell:
    paper = published(metric, dataset, process, depth)
    if paper is None:
        return Cell(role="paper")
    # Errors of run times are "negligible" in the paper, which prints none.
    error = None if metric == _TIMES else paper.standard_error
    return Cell(paper.mean, error, decimals=paper.decimals, role="paper")


def _p_value(test: PairedTest | None) -> Cell:
    if test is None or test.p_value is None:
        return Cell(text=_NOTHING, count=test.num_splits if test else None)
    text = "< 0.001" if test.p_value < 0.001 else ""
    return Cell(test.p_value, count=test.num_splits, decimals=3, text=text)


def _ratio(dwp: dict[int, float], dgp: dict[int, float]) -> Cell:
    common = sorted(dwp.keys() & dgp.keys())
    slower = sum(dgp[split] for split in common)
    if slower <= 0:
        return Cell(text=_NOTHING)
    return Cell(sum(dwp[split] for split in common) / slower, count=len(common))


def _paper_ratio(dataset: str, depth: int) -> Cell:
    dwp, dgp = (published(_TIMES, dataset, process, depth) for process in ("dwp", "dgp"))
    return Cell(dwp.mean / dgp.mean if dwp and dgp else None, role="paper")
