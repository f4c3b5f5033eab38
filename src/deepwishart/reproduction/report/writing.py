"""What a report says, and the report on disk: Markdown, and one HTML page that asks nothing of any
network."""

from __future__ import annotations

import csv
import io
import os
import re
from dataclasses import dataclass
from pathlib import Path

import jinja2
from matplotlib import rc_context

from deepwishart._support.files import write_atomically
from deepwishart._support.pages import picture, style
from deepwishart.reproduction.published import METRICS, citation
from deepwishart.reproduction.report import comparisons
from deepwishart.reproduction.report.figures import depth_figures, training_figure
from deepwishart.reproduction.report.reading import Results, read_results
from deepwishart.reproduction.report.statistics import reach
from deepwishart.reproduction.report.tables import CLOSE, Cell, Section, count_table, make_table

MARKS = {"match": "≈", "better": "▲", "worse": "▼", "agrees": "✓", "contradicts": "✗", "": ""}
_READING = (
    "Numbers are means ± one standard error over splits, with the number of splits in parentheses; "
    "several seeds of one split are averaged first. Published numbers are quoted from the paper; "
    "beside them, with the name of the training protocol in parentheses, are ours.",
    "Bold: the better one of DWP and DGP, where a two-sided paired t test on the splits that both "
    "have gives p < 0.05, without correction for the number of tests. With fewer than three common "
    "splits nothing is bold.",
    f"{MARKS['match']} as close to the paper as chance may bring it, {MARKS['better']} better than "
    f"that, {MARKS['worse']} worse. The reach of chance is a quantile of Student's t in combined "
    f"standard errors, {reach(2):.1f} with three splits and {reach(19):.1f} with twenty where the "
    "error is all ours, which chance passes as often as two that are known, 4.6% of the time. The "
    "combined standard error is made of ours, the paper's, and that of rounding the paper's mean "
    "to the decimals it is printed with; a single split has no standard error and gets no mark. "
    "The paper's splits are the same, but it prints no numbers by split, with which differences "
    "could be paired: there would rather be more marks.",
)
_BY_DEPTH = (
    "Pale points are splits, filled ones means over them with one standard error, hollow ones the "
    "paper's means."
)
_IN_TRAINING = (
    "The objective of training, averaged over groups of steps, against time and against steps. "
    "While the KL term is annealed, at the start, it is not yet the ELBO, and what lies outside "
    "the frame is cut off."
)


@dataclass(frozen=True)
class Content:
    """A report: a summary, notes on what was left out, and sections."""

    summary: str
    notes: tuple[str, ...]
    sections: tuple[Section, ...]
    title: str = "UCI results beside the paper's"


def make_content(results: Results) -> Content:
    """Everything that the report says about our runs.

    >>> import tempfile
    >>> from deepwishart.reproduction.report import read_results
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     print(make_content(read_results(directory)).summary)
    Protocol paper: 0 of 144 cells run, 0 judged (0 match, 0 better, 0 worse), 0 at or above ...
    """
    counts, training = count_table(results), training_figure(results)
    tables = [counts, *(make_table(results, metric) for metric in METRICS)]
    tables[-1:-1] = [comparisons.difference_table(results), comparisons.bound_table(results)]
    tables += [comparisons.family_table(results), comparisons.other_table(results)]
    curves = [Section("curves", "Training curves", (_IN_TRAINING,), figures=(training,))]
    return Content(
        " ".join(_sentence(counts, protocol) for protocol in results.protocols),
        results.notes,
        (
            Section("reading", "How to read the tables", _READING),
            *tables,
            Section("depths", "Results by depth", (_BY_DEPTH,), figures=depth_figures(results)),
            *(curves if training else ()),
            Section("source", "Published numbers", (citation(),)),
        ),
    )


def _sentence(counts: Section, protocol: str) -> str:
    """Cells of ELBO and of log likelihood together."""
    rows = [[cell.value or 0 for cell in row[2:]] for row in counts.rows if row[1].text == protocol]
    cells, run, judged, match, better, worse, close = (
        f"{sum(n):.0f}" for n in zip(*rows, strict=True)
    )
    return (
        f"Protocol {protocol}: {run} of {cells} cells run, {judged} judged ({match} match, "
        f"{better} better, {worse} worse), {close} at or above the published mean - {CLOSE}."
    )


def write_report(
    results: str | os.PathLike[str], out: str | os.PathLike[str]
) -> tuple[Content, list[Path]]:
    """Write ``report.md``, with pictures in ``figures/``, and ``report.html``, and each table in a
    file of its own in ``tables/``, for pages of documentation to include.

    Args:
        results: directory that ``deepwishart uci run`` wrote to.
        out: directory of the report; made if it is not there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     content, files = write_report(directory, Path(directory) / "report")
    >>> [path.name for path in files]
    ['report.md', 'report.html']
    """
    content = make_content(read_results(results))
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{out} is a file; name a directory for the report.")
    for name in ("figures", "tables"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for section in content.sections:
        if not section.figures:
            text = _templates().get_template("section.rst").render(section=section)
            write_atomically(folder / "tables" / f"{section.name}.rst", text)
        for figure in section.figures:
            with rc_context({"svg.hashsalt": figure.name, "svg.fonttype": "none"}):
                file = folder / "figures" / f"{figure.name}.svg"
                figure.picture.savefig(file, metadata={"Date": None})
    names = ("report.md", "report.html")
    return content, [write_atomically(folder / name, render(name, content)) for name in names]


def render(template: str, content: Content) -> str:
    """The report as ``"report.md"`` or ``"report.html"``."""
    return _templates().get_template(template).render(content=content)


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"md": _markdown, "cell": _cell, "csv": _csv}
    environment.globals |= {"marks": MARKS, "style": style, "picture": picture}
    return environment


def _markdown(text: str) -> str:
    """Text without what Markdown or reStructuredText would take for something else."""
    return re.sub(r"([\\`*_|<\[\]#])", r"\\\1", " ".join(text.split()))


def _cell(cell: Cell) -> str:
    number = _markdown(cell.number())
    number = f"**{number}**" if cell.bold else number
    count = "" if cell.count is None else f"({cell.count})"
    return " ".join(part for part in (number, count, MARKS[cell.mark]) if part)


def _csv(table: Section) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_markdown, table.headings))
    writer.writerows(map(_cell, row) for row in table.rows)
    return buffer.getvalue().rstrip()
