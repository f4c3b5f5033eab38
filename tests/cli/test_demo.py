"""deepwishart demo, and the pages that it and others write."""

import re

import pytest

from .conftest import TINY, refused, run

pytestmark = pytest.mark.slow


def test_quick_demo_writes_one_page_that_needs_nothing_else(tmp_path):
    result = run("demo", "--quick", "--out", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    for words in ("deepwishart fit", "--depth 3", "linear model", "plain GP", "RMSE", "90%"):
        assert words in result.output
    page = (tmp_path / "demo" / "index.html").read_text()
    assert not re.search(r"https?:|//|@import|<script|<link|url\((?!#)", page)
    for words in ("Relevance", "Training", "calibrated", "Residuals"):
        assert words in page
    (tmp_path / "file").write_text("")
    refused(run("demo", "--quick", "--out", tmp_path / "file"), str(tmp_path / "file"))


def test_pages_escape_names_and_pictures_take_their_colours(tmp_path):
    rows = "".join(f"{i % 7},{'ab'[i % 2]}<i>\n" for i in range(30))
    (tmp_path / "t.csv").write_text(f"<script>,<b>y\n{rows}")
    page = tmp_path / "r.html"
    options = ["--target", "<b>y", "--out", tmp_path / "m", "--report", page, "--holdout", "0.3"]
    result = run("fit", tmp_path / "t.csv", *options, *TINY)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert not re.search("<script>|<b>|<i>", text)
    assert "<h1>&lt;b&gt;y from t.csv</h1>" in text and "<th>b&lt;i&gt;</th>" in text
    assert 'aria-label="reliability of &lt;b&gt;y"' in text and "<td class=best>" in text
    assert "var(--blue)" in text and "currentColor" in text and "#000000" not in text
    dark = text[text.index("prefers-color-scheme: dark") :]
    for name in set(re.findall(r"var\((--\w+)\)", text)):
        assert text.count(f"{name}:") == 2 and f"{name}:" in dark  # in light and in dark
