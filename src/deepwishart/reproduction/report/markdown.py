"""A report as Markdown, and its tables one by one."""

from __future__ import annotations

import re

from deepwishart.reproduction.report.content import MARKS, Content, Section
from deepwishart.reproduction.report.tables import Cell, Table


def to_markdown(content: Content) -> str:
    """The report; its pictures are files beside it, in ``figures``."""
    parts = [f"# {escape(content.title)}", f"**{escape(content.summary)}**"]
    parts += map(escape, content.notes)
    for section in content.sections:
        parts += _section(section)
    return "\n\n".join(part for part in parts if part) + "\n"


def to_cell(cell: Cell) -> str:
    """A cell as Markdown, and as reStructuredText."""
    text = escape(cell.number())
    text = f"**{text}**" if cell.bold else text
    count = "" if cell.count is None else f"({cell.count})"
    return " ".join(part for part in (text, count, MARKS[cell.mark]) if part)


def escape(text: str) -> str:
    """Text without what Markdown would take for something else."""
    return re.sub(r"([\\`*_|<\[\]#])", r"\\\1", " ".join(text.split()))


def _section(section: Section) -> list[str]:
    pictures = [f"![{escape(f.title)}](figures/{f.name}.svg)" for f in section.figures]
    captions = [escape(figure.caption) for figure in section.figures]
    table = [_table(section.table)] if section.table else []
    texts = [*map(escape, section.texts), *table, *pictures, *captions]
    return [f"## {escape(section.title)}", *texts]


def _table(table: Table) -> str:
    rule = [":--", *["--:"] * (len(table.headings) - 1)]
    rows = [map(escape, table.headings), rule, *(map(to_cell, row) for row in table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
