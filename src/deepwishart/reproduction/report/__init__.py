"""Reports on sweeps: the paper's tables and figures, made from the lines of finished runs.

``deepwishart uci report`` is :func:`write_report`. No number is typed in: ours come from
``runs.jsonl``, the paper's from one data file, see :func:`published`.
"""

from deepwishart.reproduction.published import Published, published
from deepwishart.reproduction.report.reading import Results, Run, read_results
from deepwishart.reproduction.report.writing import Content, make_content, write_report

__all__ = [
    "Content",
    "Published",
    "Results",
    "Run",
    "make_content",
    "published",
    "read_results",
    "write_report",
]
