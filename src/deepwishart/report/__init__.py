"""Reports on sweeps: the paper's tables and figures, made from the lines of finished runs.

``deepwishart uci report`` is :func:`write_report`. The steps on the way are functions too:
:func:`read_results`, :func:`make_table`, :func:`make_content`. No number is typed in: ours come
from ``runs.jsonl``, the paper's from one data file, see :func:`published`.
"""

from deepwishart.report.content import Content, make_content
from deepwishart.report.figures import Figure, depth_figures, training_figure
from deepwishart.report.html import to_html
from deepwishart.report.latex import to_latex
from deepwishart.report.markdown import to_markdown
from deepwishart.report.published import Published, citation, published
from deepwishart.report.reading import Results, Run, read_results
from deepwishart.report.statistics import (
    Estimate,
    PairedTest,
    compare,
    estimate,
    paired_test,
    student_t_two_sided,
)
from deepwishart.report.tables import Cell, Summary, Table, make_table, summarise
from deepwishart.report.writing import Written, write_report

__all__ = [
    "Cell",
    "Content",
    "Estimate",
    "Figure",
    "PairedTest",
    "Published",
    "Results",
    "Run",
    "Summary",
    "Table",
    "Written",
    "citation",
    "compare",
    "depth_figures",
    "estimate",
    "make_content",
    "make_table",
    "paired_test",
    "published",
    "read_results",
    "student_t_two_sided",
    "summarise",
    "to_html",
    "to_latex",
    "to_markdown",
    "training_figure",
    "write_report",
]
