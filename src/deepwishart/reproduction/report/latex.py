"""A report as LaTeX: a document of its own that needs nothing but common packages."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from deepwishart.reproduction.report.content import MARKS, Content
from deepwishart.reproduction.report.figures import Figure
from deepwishart.reproduction.report.tables import Cell, Table

__all__ = ["to_latex"]

_PREAMBLE = r"""\documentclass{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage[margin=2cm]{geometry}
\usepackage{amssymb,booktabs,graphicx}
\setlength{\parindent}{0pt}
\setlength{\parskip}{6pt}
"""
# A table that is wider than the page is made smaller.
_FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
_FIGURES = (
    "Figures are in report.html, where they answer the pointer, and as SVG files in figures/."
)
_MARKS = {
    "match": r"$\approx$",
    "better": r"$\blacktriangle$",
    "worse": r"$\blacktriangledown$",
    "": "",
}
_CHARACTERS = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{MARKS[name]: mark for name, mark in _MARKS.items() if name},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$", "—": "---", "'": "'{}"},
}


def to_latex(content: Content) -> str:
    """The report as text and tables; the pictures are in the Markdown and HTML files."""
    figures = _FIGURES if isinstance(content.training, Figure) else content.training
    settings = "; ".join(f"{name} {value}" for name, value in content.settings.items())
    sentences = [
        *(f"{title}: {summary}" for title, summary in content.summaries),
        *(*content.notes, *content.reading, figures),
        *(f"Settings: {settings}", f"Published numbers: {content.citation}"),
    ]
    parts = [
        f"{_PREAMBLE}\\title{{{_escape(content.title)}}}\n\\date{{}}\n\\begin{{document}}",
        f"\\maketitle\n\\textbf{{{_escape(content.summary)}}}",
        *map(_escape, sentences),
        *map(_table, content.tables),
        "\\end{document}",
    ]
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    lines = [
        r"\begin{table}[p]\centering\footnotesize\setlength{\tabcolsep}{4pt}",
        f"\\caption{{{_escape(table.title)}. {_escape(table.about)}}}",
        _FIT,
        f"\\begin{{tabular}}{{l{'r' * (len(table.headings) - 1)}}}\n\\toprule",
        _line(map(_escape, table.headings)),
    ]
    for _, rows in itertools.groupby(table.rows, key=lambda row: row[0].text):
        lines.append(r"\midrule")
        lines += [_line(map(_cell, row)) for row in rows]
    return "\n".join([*lines, "\\bottomrule\n\\end{tabular}}\n\\end{table}"])


def _line(texts: Iterable[str]) -> str:
    return " & ".join(texts) + r" \\"


def _cell(cell: Cell) -> str:
    if cell.value is None or cell.text:
        number = _escape(cell.text)
    else:
        number = cell.number(r"\pm")
        number = f"$\\mathbf{{{number}}}$" if cell.bold else f"${number}$"
    count = "" if cell.count is None else f"({cell.count})"
    return " ".join(part for part in (number, count, _MARKS[cell.mark]) if part)


def _escape(text: str) -> str:
    return "".join(_CHARACTERS.get(character, character) for character in " ".join(text.split()))
