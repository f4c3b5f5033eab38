"""A report as Markdown."""

from __future__ import annotations

import re

from deepwishart.reproduction.report.content import MARKS, Content
from deepwishart.reproduction.report.figures import Figure
from deepwishart.reproduction.report.tables import Cell, Table

__all__ = ["to_markdown"]


def to_markdown(content: Content) -> str:
    """The report; its pictures are files beside it, in ``figures``."""
    parts = [f"# {_escape(content.title)}", f"**{_escape(content.summary)}**"]
    parts.append("\n".join(f"- {_escape(title)}: {_escape(s)}" for title, s in content.summaries))
    parts += [_escape(note) for note in (*content.notes, *content.reading)]
    for table in content.tables:
        parts += [f"## {_escape(table.title)}", _escape(table.about), _table(table)]
    parts.append("## Training curves")
    if isinstance(content.training, Figure):
        parts += [_picture(content.training), _escape(content.training.caption)]
    else:
        parts.append(_escape(content.training))
    if content.depths:
        parts.append("## Results by depth")
        parts += [_picture(figure) for figure in content.depths]
    parts.append("## How the runs were made")
    parts.append("\n".join(f"- {_escape(k)}: {_escape(v)}" for k, v in content.settings.items()))
    parts.append(f"Published numbers: {_escape(content.citation)}")
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    rule = [":--", *["--:"] * (len(table.headings) - 1)]
    rows = [map(_escape, table.headings), rule, *(map(_cell, row) for row in table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(cell: Cell) -> str:
    text = _escape(cell.number())
    text = f"**{text}**" if cell.bold else text
    count = "" if cell.count is None else f"({cell.count})"
    return " ".join(part for part in (text, count, MARKS[cell.mark]) if part)


def _picture(figure: Figure) -> str:
    return f"![{_escape(figure.title)}](figures/{figure.name}.svg)"


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_|<\[\]#])", r"\\\1", " ".join(text.split()))
