"""Markdown and HTML: whole, well-formed, escaped."""

import csv
import re
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from deepwishart.cli import app
from deepwishart.reproduction.report import make_content, read_results, write_report
from deepwishart.reproduction.report.writing import render
from deepwishart.reproduction.sweeps import ResultsStore, RunSpec

EVIL = """<script>alert("x")</script>|*_"""


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """A report on a few runs, one of which failed for a reason with markup in it."""
    store = ResultsStore(tmp_path_factory.mktemp("results"))
    evil = RunSpec("boston", 3, "dwp", 2)
    with store.writing():
        for split in range(3):
            for process, elbo in (("dwp", -0.33), ("dgp", -0.38)):
                record = RunSpec("boston", split, process, 2).to_dict()
                numbers = {"status": "ok", "elbo": elbo + 0.01 * split**2 * (process == "dwp")}
                store.add({**record, **numbers}, {"step": []})
        store.add({**evil.to_dict(), "status": "failed", "reason": EVIL}, {})
    return make_content(read_results(store.directory))


def test_markdown(content):
    text = render("report.md", content)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    counts = [table.count("\n") - 2 for table in tables]
    assert counts == [2, 36, 36, 36, 36, 4]
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1
    assert "| boston | 2 | -0.33 ± 0.00 | **-0.31 ± 0.01** (3) ≈ | -0.38 ± 0.01 |" in text
    assert "<script" not in text.replace(r"\<script", "")


def test_html(content):
    page = render("report.html", content)
    text, pictures = re.subn(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    assert pictures == 1
    ElementTree.fromstring(re.sub(r"<!doctype html>|<(meta|link)[^>]*>", "", text))  # well-formed
    links, ids = re.findall(r' href="#(.*?)"', text), re.findall(r' id="(.*?)"', text)
    assert set(links) <= set(ids) and len(set(ids)) == len(ids)
    assert "default-src 'none'" in page and "<script" not in page
    assert re.findall(r"https?://|url\((?!#)|@import", page) == []
    assert "&lt;script&gt;alert(&#34;x&#34;)" in page and page.count("<table") == 6
    assert '<strong>-0.31 ± 0.01</strong> <span class="count">(3)</span>' in page


def test_pictures_stand_alone(make_results, tmp_path):
    results = make_results(num_splits=1)
    _, files = write_report(results, tmp_path / "out" / "report")
    folder = files[0].parent
    assert {p.name for p in folder.iterdir()} == {"report.md", "report.html", "figures", "tables"}
    table = (folder / "tables" / "elbo.rst").read_text("utf-8")
    about, _, rows = table.partition(".. csv-table:: ELBO per data point\n   :header-rows: 1\n\n")
    assert "larger is better" in about
    assert rows.splitlines()[0].startswith("   data set,depth,DWP published,DWP (paper),")
    assert len(list(csv.reader(rows.splitlines()))) == 37
    assert "no such runs" in (folder / "tables" / "families.rst").read_text("utf-8")
    pictures = re.findall(r"\]\((.*?\.svg)\)", (folder / "report.md").read_text("utf-8"))
    assert len(pictures) == 3
    for picture in pictures:
        root = ElementTree.parse(folder / picture).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert (folder / "report.html").read_text("utf-8").count("<svg") == 3
    # The same runs give the same files.
    again = write_report(results, tmp_path / "again")[1][0].parent
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 2 + 3 + 10
    assert all((folder / path).read_bytes() == (again / path).read_bytes() for path in files)


def command(*arguments):
    return CliRunner().invoke(app, ["uci", "report", *map(str, arguments)])


def test_the_command_says_what_it_wrote_and_what_it_left_out(make_results, tmp_path):
    results, out = make_results(num_splits=1), tmp_path / "report"
    with open(results / "runs.jsonl", "a") as file:
        file.write('{"torn')
    result = command(results, "--out", out)
    assert result.exit_code == 0
    summary, *files = result.stdout.splitlines()
    assert summary.startswith("Protocol paper: 16 of 144 cells run, 0 judged")
    assert files == [str(out / f"report.{end}") for end in ("md", "html")]
    assert "1 line of runs.jsonl could not be read" in result.stderr
    assert "1 line of runs.jsonl could not be read" in (out / "report.md").read_text()
    result = command(tmp_path / "nowhere", "--out", out)
    assert result.exit_code == 2
    assert result.stderr.startswith("deepwishart: ") and result.stderr.count("\n") == 1
