"""A report as one HTML page that needs no other file and asks nothing of any network."""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterable
from importlib import resources

from deepwishart.reproduction.report.content import MARKS, Content
from deepwishart.reproduction.report.figures import Figure
from deepwishart.reproduction.report.tables import Cell, Table

__all__ = ["to_html"]

# The page is allowed what it brings along, and nothing else.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_MEANINGS = {
    "match": "within two combined standard errors of the paper",
    "better": "better than the paper",
    "worse": "worse than the paper",
}


def to_html(content: Content) -> str:
    """The page: tables that sort by a click on a heading, points that tell their run."""
    title = html.escape(content.title)
    links = [(table.metric, table.title) for table in content.tables]
    links += [("curves", "Training curves"), ("depths", "By depth"), ("settings", "Settings")]
    navigation = "".join(f'<a href="#{name}">{html.escape(text)}</a>' for name, text in links)
    reading = "".join(f"<p>{html.escape(text)}</p>" for text in content.reading)
    body = [
        f"<header><h1>{title}</h1>",
        f'<p class="summary" id="summary">{html.escape(content.summary)}</p>',
        _list(content.summaries),
        f"<nav>{navigation}</nav></header>",
        *(f'<p class="note">{html.escape(note)}</p>' for note in content.notes),
        f"<details open><summary>How to read the tables</summary>{reading}</details>",
    ]
    body += [
        *map(_table, content.tables),
        f'<section id="curves"><h2>Training curves</h2>\n{_curves(content.training)}</section>',
        f'<section id="depths"><h2>Results by depth</h2>{_depths(content.depths)}</section>',
        f'<section id="settings"><h2>How the runs were made</h2>{_list(content.settings.items())}',
        f"<p>Published numbers: {html.escape(content.citation)}</p></section>",
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{title}</title>\n'
        f"<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + f"\n<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n"
    )


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
        f'<section id="{table.metric}"><h2>{html.escape(table.title)}</h2>\n'
        f"<p>{html.escape(table.about)}</p>\n"
        f'<div class="scroll"><table class="sortable">\n<thead><tr>{headings}</tr></thead>\n'
        "<tbody>\n" + "\n".join(rows) + "\n</tbody></table></div></section>"
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


def _curves(training: Figure | str) -> str:
    if isinstance(training, str):
        return f"<p>{html.escape(training)}</p>"
    caption = f"<figcaption>{html.escape(training.caption)}</figcaption>"
    return f"<figure>{_inline(training.svg)}{caption}</figure>"


def _depths(figures: tuple[Figure, ...]) -> str:
    if not figures:
        return "<p>There are none yet.</p>"
    cards = "\n".join(
        f"<figure><h3>{html.escape(figure.title)}</h3>{_inline(figure.svg)}</figure>"
        for figure in figures
    )
    return (
        "\n<p>Pale points are runs, large ones means over splits with one standard error, hollow "
        "ones the paper's means. Runs far outside are drawn on the edge. Point at anything to see "
        f'what it is.</p>\n<div class="cards">{cards}</div>'
    )


def _inline(svg: str) -> str:
    """An SVG element without the name spaces that it does not need within HTML."""
    return re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg)


def _list(items: Iterable[tuple[str, str]]) -> str:
    entries = [f"<div><dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd></div>" for k, v in items]
    return f"<dl>{''.join(entries)}</dl>"


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
