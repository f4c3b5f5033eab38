"""The paper's three tables with our numbers beside its own, whatever they are printed as.

A table is made of cells that hold numbers; the writers of Markdown, LaTeX and HTML turn cells into
text. Every number comes from the records of runs or from ``published.json``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from deepwishart.reproduction.report.published import METRICS, published, published_kinds
from deepwishart.reproduction.report.reading import Results
from deepwishart.reproduction.report.statistics import PairedTest, compare, estimate, paired_test

__all__ = ["LABELS", "TITLES", "Cell", "Summary", "Table", "make_table", "summarise"]

SIGNIFICANCE = 0.05
TITLES = {
    "elbo": "ELBO per data point",
    "test_log_likelihood": "Test log likelihood",
    "seconds_per_epoch": "Run time, seconds per epoch",
}
LABELS = {"dwp": "DWP", "dgp": "DGP", "diwp": "DIWP", "dsvi": "DSVI"}
_NOTHING = "—"
_SMALLER_IS_BETTER = {"seconds_per_epoch"}


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
        text = f"{self.value:.{self.decimals}f}"
        if self.standard_error is None:
            return text
        return f"{text} {plus_minus} {self.standard_error:.{self.decimals}f}"


@dataclass(frozen=True)
class Table:
    """One table; a row has as many cells as there are headings."""

    metric: str
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Summary:
    """How many cells of a table have a published number, how many of those were run, and how they
    compare with the paper's, see :func:`compare`."""

    published: int
    run: int
    matched: int
    better: int
    worse: int

    def __add__(self, other: Summary) -> Summary:
        ours, theirs = vars(self).values(), vars(other).values()
        return Summary(*(a + b for a, b in zip(ours, theirs, strict=True)))

    def __str__(self) -> str:
        rest = self.run - self.matched - self.better - self.worse
        tail = f"; {rest} cannot be judged, for want of a standard error" if rest else ""
        return (
            f"{self.run} of {self.published} cells run, {self.matched} matched, "
            f"{self.better} better, {self.worse} worse{tail}."
        )


def make_table(results: Results, metric: str) -> Table:
    """One of the paper's tables: a row for each data set and depth.

    Args:
        results: our runs.
        metric: ``"elbo"``, ``"test_log_likelihood"`` or ``"seconds_per_epoch"``.
    """
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}.")
    ran = ((run.spec.dataset, run.spec.depth) for run in results.runs)
    kinds = sorted({*published_kinds(metric), *ran})
    processes = [p for p in results.processes if _shown(results, metric, p)]
    if metric == "test_log_likelihood" and "diwp" not in processes:
        processes.insert(2, "diwp")  # quoted in the paper's table, whether it was run here or not
    quoted = [p for p in processes if any(published(metric, d, p, n) for d, n in kinds)]
    headings = ["data set", "depth"]
    for process in processes:
        label = LABELS.get(process, process)
        headings += [label] * _shown(results, metric, process)
        headings += [f"{label} paper"] * (process in quoted)
        headings += _pair_headings(metric) * (process == "dgp")
    rows = tuple(_row(results, metric, kind, processes, quoted) for kind in kinds)
    return Table(metric, TITLES[metric], tuple(headings), rows)


def summarise(results: Results, metric: str) -> Summary:
    """Count the cells of DWP and DGP by how they compare with the paper's."""
    marks: Counter[str] = Counter()
    kinds = published_kinds(metric)
    for dataset, depth in kinds:
        for process in ("dwp", "dgp"):
            cell = _ours(results, metric, dataset, process, depth, bold=False)
            marks.update(["run", cell.mark] if cell.value is not None else [])
    counts = (marks[name] for name in ("run", "match", "better", "worse"))
    return Summary(2 * len(kinds), *counts)


def _row(
    results: Results,
    metric: str,
    kind: tuple[str, int],
    processes: list[str],
    quoted: list[str],
) -> tuple[Cell, ...]:
    dataset, depth = kind
    dwp, dgp = (results.by_split(metric, dataset, p, depth) for p in ("dwp", "dgp"))
    test = paired_test(dwp, dgp)
    winner = _winner(test, metric)
    cells = [Cell(text=dataset), Cell(float(depth), decimals=0)]
    for process in processes:
        if _shown(results, metric, process):
            cells.append(_ours(results, metric, dataset, process, depth, bold=process == winner))
        if process in quoted:
            cells.append(_paper(metric, dataset, process, depth))
        if process == "dgp":
            cells.append(_p_value(test))
            cells += _ratios(dwp, dgp, dataset, depth) * (metric == "seconds_per_epoch")
    return tuple(cells)


def _pair_headings(metric: str) -> list[str]:
    ratios = ["DWP/DGP", "DWP/DGP paper"] if metric == "seconds_per_epoch" else []
    return ["paired p (splits)", *ratios]


def _winner(test: PairedTest | None, metric: str) -> str:
    """Which one to print in bold: DWP, DGP or neither."""
    if test is None or test.p_value is None or test.p_value >= SIGNIFICANCE:
        return ""
    return "dwp" if (test.difference < 0) == (metric in _SMALLER_IS_BETTER) else "dgp"


def _ours(
    results: Results, metric: str, dataset: str, process: str, depth: int, *, bold: bool
) -> Cell:
    values = list(results.by_split(metric, dataset, process, depth).values())
    decimals = 3 if metric == "seconds_per_epoch" else 2
    if not values:
        return Cell(text=_NOTHING, role="ours")
    ours, paper = estimate(values), published(metric, dataset, process, depth)
    smaller = metric in _SMALLER_IS_BETTER
    mark = compare(ours, paper, smaller_is_better=smaller) if paper else ""
    return Cell(*ours, decimals=decimals, bold=bold, mark=mark, role="ours")


def _paper(metric: str, dataset: str, process: str, depth: int) -> Cell:
    paper = published(metric, dataset, process, depth)
    if paper is None:
        return Cell(text="", role="paper")
    # Errors of run times are "negligible" in the paper, which prints none.
    error = None if metric == "seconds_per_epoch" else paper.standard_error
    return Cell(paper.mean, error, decimals=paper.decimals, role="paper")


def _p_value(test: PairedTest | None) -> Cell:
    if test is None:
        return Cell(text=_NOTHING)
    if test.p_value is None:
        return Cell(text=_NOTHING, count=test.num_splits)
    text = "< 0.001" if test.p_value < 0.001 else ""
    return Cell(test.p_value, count=test.num_splits, decimals=3, text=text)


def _ratios(
    dwp: dict[int, float], dgp: dict[int, float], dataset: str, depth: int
) -> tuple[Cell, Cell]:
    common = sorted(dwp.keys() & dgp.keys())
    ours = Cell(text=_NOTHING)
    slower = sum(dgp[split] for split in common)
    if slower > 0:
        ratio = sum(dwp[split] for split in common) / slower
        ours = Cell(ratio, count=len(common))
    papers = [published("seconds_per_epoch", dataset, p, depth) for p in ("dwp", "dgp")]
    if papers[0] is None or papers[1] is None:
        return ours, Cell(role="paper")
    return ours, Cell(papers[0].mean / papers[1].mean, role="paper")


def _shown(results: Results, metric: str, process: str) -> bool:
    """A column of ours: always for DWP and DGP, else where there is something to show."""
    return process in ("dwp", "dgp") or any(
        run.spec.process == process and run.value(metric) is not None for run in results.runs
    )
