"""A report as one HTML page that needs no other file and asks nothing of any network."""

from __future__ import annotations

import html
import itertools
import re
from importlib import resources

from deepwishart._support.pages import recolour, style
from deepwishart.reproduction.report.content import MARKS, Content, Section
from deepwishart.reproduction.report.figures import Figure
from deepwishart.reproduction.report.tables import Cell, Table

# The page is allowed what it brings along, and nothing else.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_MEANINGS = {
    "match": "within two standard errors",
    "better": "better by more than two standard errors",
    "worse": "worse by more than two standard errors",
    "agrees": "the sign that the paper calls significant",
    "contradicts": "not the sign that the paper calls significant",
}


def to_html(content: Content) -> str:
    """The page: tables that sort by a click on a heading, points that tell their run."""
    title = html.escape(content.title)
    links = "".join(
        f'<a href="#{section.name}">{html.escape(section.title)}</a>'
        for section in content.sections
    )
    body = [
        f"<header><h1>{title}</h1>",
        f'<p class="summary" id="summary">{html.escape(content.summary)}</p>',
        f"<nav>{links}</nav></header>",
        *(f'<p class="note">{html.escape(note)}</p>' for note in content.notes),
        *map(_section, content.sections),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{title}</title>\n'
        f"<style>\n{style()}{_asset('page.css')}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + f"\n<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    texts = "".join(f"<p>{html.escape(text)}</p>\n" for text in section.texts if text)
    table = _table(section.table) if section.table else ""
    cards = "\n".join(map(_figure, section.figures))
    figures = f'<div class="cards">{cards}</div>' if cards else ""
    title = html.escape(section.title)
    return f'<section id="{section.name}"><h2>{title}</h2>\n{texts}{table}{figures}</section>'


def _table(table: Table) -> str:
    headings = "".join(
        f'<th scope="col"><button type="button">{html.escape(text)}</button></th>'
        for text in table.headings
    )
    rows = []
    for _, group in itertools.groupby(table.rows, key=lambda row: row[0].text):
        first, *rest = ("".join(map(_cell, row)) for row in group)
        rows += [f'<tr class="first">{first}</tr>', *(f"<tr>{cells}</tr>" for cells in rest)]
    return (
        f'<div class="scroll"><table class="sortable">\n<thead><tr>{headings}</tr></thead>\n'
        "<tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    text = html.escape(cell.number())
    text = f"<strong>{text}</strong>" if cell.bold else text
    if cell.count is not None:
        text += f' <span class="count">({cell.count})</span>'
    if cell.mark:
        text += (
            f' <span class="{cell.mark}" title="{_MEANINGS[cell.mark]}">{MARKS[cell.mark]}</span>'
        )
    elif cell.role == "ours" and cell.value is not None:
        text += ' <span class="unmarked"></span>'
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    return f'<td class="{cell.role}"{value}>{text}</td>'


def _figure(figure: Figure) -> str:
    caption = f"<figcaption>{html.escape(figure.caption)}</figcaption>" if figure.caption else ""
    # In the page's colours, and without name spaces, which HTML does not need.
    svg = recolour(re.sub(r' xmlns(:\w+)?="[^"]*"', "", figure.svg))
    return f"<figure><h3>{html.escape(figure.title)}</h3>{svg}{caption}</figure>"


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
