"""Formulas, HTML, markup and paths in names of columns, categories and targets."""

from __future__ import annotations

import csv
import html.parser
import os
import random
import re
from collections import Counter
from pathlib import Path

import polars as pl

from stress.cases import Failed, Outcome
from stress.command import command, judge
from stress.tables import TINY, base_columns

__all__ = ["SUITE"]

PAYLOADS = (
    *("=1+1", "+1+1", "-1+1", "@SUM(1+1)", "=cmd|' /C touch injected'!A0", "\t=1+1", "\r=1+1"),
    *('=HYPERLINK("http://x","y")', "%0A=1+1", "1,=1+1", '"=1+1"', ";=1+1", "=1+1\n=2+2"),
    *("<script>injected()</script>", "<img src=x onerror=injected()>", "</title><script>", "<b>"),
    *('" onload="injected()', "' onload='injected()", "--><svg/onload=injected()>", "&lt;script>"),
    *("</svg><script>injected()</script>", "]]><script>", "<style>*{display:none}</style>"),
    *("javascript:injected()", "<a href='javascript:injected()'>x</a>", "<!--", "&#60;script>"),
    *(
        "{{ 7777*8887 }}",
        "{% include 'page.css' %}",
        "{{ self.__init__ }}",
        "${7777*8887}",
        "#{7777*8887}",
    ),
    *(
        "[bold red]x[/]",
        "[link=http://x]y[/link]",
        "[/]",
        "\\[x]",
        "\x1b]8;;http://x\x07y",
        "\x9b2J",
    ),
    *("$(touch injected)", "`touch injected`", "; touch injected", "| touch injected", "%n%s%x"),
    *("../injected", "/tmp/../injected", "injected\x00.csv", "file:///etc/passwd", "~/.profile"),
    *("$\\frac{1}{2", "$x$", "\\input{/etc/passwd}", "x_{", "$$", "\\$", "_hidden", "^x.*$", "x\\"),
    *("\u202e<cte>", "\ufeff=1+1", "\uff1d1+1", "\u2028<script>", "__import__('os')", "!!python/x"),
)
FORMULA = re.compile(r"[=@\t\r].|[+-](?![\d.eE+-]*$)", re.DOTALL)
PLACES = ("x", "colour", "price", "a category", "a class")


class Injections:
    """Tables with one text that is more than a text to somebody."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """What a page is made of when names are plain."""
        for place, target in (("x", "price"), ("a class", "colour")):
            tags = self._pages(self.folder / target, "plain", place)[1]
            (self.folder / f"{target}.tags").write_text(tags)

    def run(self, rng: random.Random, folder: Path) -> Outcome:
        """One text in one place, through all commands that show it."""
        payload, place = rng.choice(PAYLOADS), rng.choice(PLACES)
        if rng.random() < 0.2:
            payload += rng.choice(PAYLOADS)
        os.chdir(folder)
        what, ended = f"{payload!r} as {place}", self._pages(folder, payload, place)
        if list(folder.rglob("*injected*")) or Path("/injected").exists():
            raise Failed(f"{what}: a file was made")
        if ended[0] == "accepted":
            target = "colour" if place == "a class" else "price"
            tags = (self.folder / f"{target}.tags").read_text()
            if ended[1] != tags:
                raise Failed(f"{what}: the page has {ended[1]}\nand not {tags}")
        return Outcome(what, ended[0])

    def _pages(self, folder: Path, payload: str, place: str) -> tuple[str, str]:
        """How ``fit`` ended, and the elements of its page; other commands are judged as well."""
        folder.mkdir(parents=True, exist_ok=True)
        columns, names = base_columns(), {name: name for name in base_columns()}
        if place in names:
            names[place] = payload
        else:
            columns["colour"] = [payload if c == "red" else c for c in columns["colour"]]
        table = pl.DataFrame({names[name]: values for name, values in columns.items()})
        path = folder / f"t{'.csv' if len(payload) % 2 else '.parquet'}"
        table.write_csv(path) if path.suffix == ".csv" else table.write_parquet(path)
        model, page = folder / "model", folder / "page.html"
        target = names["colour" if place == "a class" else "price"]
        options = [*TINY[:-1], "--holdout", "0.3", "--report", page, "--out", model]
        if judge(ended := command("fit", path, f"--target={target}", *options)) == "refused":
            return "refused", ""
        self._check_text(ended.out, payload)
        for words in (("info", model), ("explain", model, path, "--out", folder / "explained")):
            judge(ended := command(*words))
            self._check_text(ended.out, payload)
        kept = f"--keep={names['colour']}"
        written = command("predict", model, path, kept, "--out", folder / "predicted.csv")
        judge(written)
        for file in (folder / "predicted.csv", folder / "explained" / "relevance.csv"):
            self._check_cells(file, written.err + ended.err, payload)
        return "accepted", elements(page.read_text())

    def _check_text(self, text: str, payload: str) -> None:
        if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text) or "69114199" in text:
            raise Failed(f"{payload!r} reaches the terminal as it is: {text[:300]!r}")

    def _check_cells(self, file: Path, said: str, payload: str) -> None:
        """Rows of one width; a text that a spreadsheet computes is there only after a warning."""
        if not file.exists():
            return
        with open(file, newline="") as lines:
            rows = list(csv.reader(lines))
        if len({len(row) for row in rows}) != 1:
            raise Failed(f"{payload!r} breaks the rows of {file.name}")
        cells = [cell for row in rows for cell in row]
        if "formula" not in said and any(FORMULA.match(cell) for cell in cells):
            raise Failed(f"{payload!r} is a formula in {file.name}, and nobody says so")


SUITE = Injections


def elements(page: str) -> str:
    """What a page consists of, insides of pictures apart; refuses what could be executed."""
    found: Counter[str] = Counter()

    class Parser(html.parser.HTMLParser):
        inside = False

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            names = {name: value or "" for name, value in attrs}
            for name, value in names.items():
                if name.startswith("on") or re.match(r"\s*(javascript|data):", value, re.I):
                    raise Failed(f"<{tag} {name}={value!r}> in the page")
            self.inside = self.inside or tag == "svg"
            if not self.inside:
                found[" ".join([tag, *sorted(names)])] += 1

        def handle_endtag(self, tag: str) -> None:
            self.inside = self.inside and tag != "svg"

    Parser().feed(page)
    scripts = {"script", "iframe", "object"} & {each.split()[0] for each in found}
    if scripts or "69114199" in page:
        raise Failed("the page has a script, or a template was filled in")
    return ", ".join(sorted(found))
