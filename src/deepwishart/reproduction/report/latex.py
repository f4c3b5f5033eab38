"""A report as LaTeX: a document of its own that needs nothing but common packages."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from deepwishart.reproduction.report.content import MARKS, Content, Section
from deepwishart.reproduction.report.tables import Cell, Table

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
    "agrees": r"$\checkmark$",
    "contradicts": r"$\times$",
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
    parts = [
        f"{_PREAMBLE}\\title{{{_escape(content.title)}}}\n\\date{{}}\n\\begin{{document}}",
        f"\\maketitle\n\\textbf{{{_escape(content.summary)}}}",
        *map(_escape, content.notes),
        *(part for section in content.sections for part in _section(section)),
        "\\end{document}",
    ]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> list[str]:
    if section.table is not None:
        return [_table(section.table)]  # which says everything in its caption
    figures = [_FIGURES] if section.figures else []
    texts = [*section.texts, *figures]
    return [f"\\section*{{{_escape(section.title)}}}", *map(_escape, texts)]


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
