"""What a report says, before it is written as anything."""

from __future__ import annotations

from dataclasses import dataclass

from deepwishart.reproduction.published import METRICS, citation
from deepwishart.reproduction.report.figures import Figure, depth_figures, training_figure
from deepwishart.reproduction.report.reading import Results
from deepwishart.reproduction.report.tables import TITLES, Table, make_table, summarise

__all__ = ["MARKS", "Content", "make_content"]

MARKS = {"match": "≈", "better": "▲", "worse": "▼", "": ""}
_READING = (
    "Numbers are means ± one standard error over splits, with the number of splits in parentheses; "
    "several seeds of one split are averaged first. Columns headed 'paper' quote the published "
    "numbers.",
    "Bold: the better one of DWP and DGP, where a two-sided paired t test on the splits that both "
    "have gives p < 0.05, without correction for the number of tests. With fewer than three common "
    "splits nothing is bold.",
    f"{MARKS['match']} within two combined standard errors of the paper, {MARKS['better']} better "
    f"than that, {MARKS['worse']} worse. The combined standard error is made of ours, the paper's, "
    "and that of rounding the paper's mean to the decimals it is printed with; a single split has "
    "no standard error and gets no mark.",
)


@dataclass(frozen=True)
class Content:
    """A report: texts, the three tables, a figure of training curves or a sentence in its place, a
    figure for each data set, and how the runs were made."""

    summary: str
    summaries: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    tables: tuple[Table, ...]
    training: Figure | str
    depths: tuple[Figure, ...]
    settings: dict[str, str]
    title: str = "UCI results beside the paper's"
    reading: tuple[str, ...] = _READING
    citation: str = ""


def make_content(results: Results) -> Content:
    """Everything that the report says about our runs.

    >>> import tempfile
    >>> from deepwishart.reproduction.report import read_results
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     print(make_content(read_results(directory)).summary)
    ELBO and log likelihood against the paper: 0 of 144 cells run, 0 matched, 0 better, 0 worse. ...
    """
    quality, times = summarise(results, *METRICS[:2]), summarise(results, *METRICS[2:])
    return Content(
        summary=f"ELBO and log likelihood against the paper: {quality} Run times: {times}",
        summaries=tuple((TITLES[metric], summarise(results, metric)) for metric in METRICS),
        notes=results.notes,
        tables=tuple(make_table(results, metric) for metric in METRICS),
        training=training_figure(results),
        depths=tuple(depth_figures(results)),
        settings={"training protocol": results.protocol, **results.settings()},
        citation=citation(),
    )
