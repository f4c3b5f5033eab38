"""deepwishart demo, and the pages that it and others write."""

import re

import pytest
from matplotlib.figure import Figure

from deepwishart._support.pages import picture, render

from .conftest import refused, run


def test_quick_demo_writes_one_page_that_needs_nothing_else(tmp_path):
    result = run("demo", "--quick", "--out", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    for words in ("linear model", "plain GP", "deep GP", "deep Wishart"):
        assert words in result.output
    for words in ("evidence", "log likelihood", "RMSE", "CRPS", "90%", "seconds"):
        assert words in result.output
    assert [entry.name for entry in (tmp_path / "demo").iterdir()] == ["index.html"]
    page = (tmp_path / "demo" / "index.html").read_text()
    assert page.count("<svg") == page.count("</svg>") == 5
    text = re.sub(r'base64,[^"]+', "", page)
    assert not re.search(r"http:|https:|//|@import|<script|<link|url\((?!#)", text)
    for words in ("Errors", "Training", "Predictions", "Calibration", "Gram matrices"):
        assert words in text


def test_pages_escape_text_and_pictures_take_their_colours():
    figure = Figure()
    figure.subplots().plot([0, 1], [0, 1], color="#0072B2")
    svg = picture(figure, 'say "x"')
    assert "var(--blue)" in svg and "currentColor" in svg
    assert "#0072b2" not in svg and "#000000" not in svg
    assert 'aria-label="say &#34;x&#34;"' in svg
    names = ("errors", "predictions", "calibration_curves", "curves", "grams")
    parts = {"names": ["<"], "lines": [["&", "1"]], "best": [1], "text": "<script>"}
    parts |= {**dict.fromkeys(names, svg), "shown": 1, "gram_rows": 1}
    page = render("demo.html", title="a < b", **parts)
    assert "<script>" not in page and "<h1>a &lt; b</h1>" in page and "<svg" in page
    assert "<td>&amp;</td><td class=best>1</td>" in page and "<th>&lt;</th>" in page
    dark = page[page.index("prefers-color-scheme: dark") :]
    for name in set(re.findall(r"var\((--\w+)\)", page)):
        assert page.count(f"{name}:") == 2 and f"{name}:" in dark  # in light and in dark


@pytest.mark.parametrize("more", [[], ["--classification"]])
def test_out_that_is_a_file(tmp_path, more):
    (tmp_path / "demo").write_text("")
    refused(run("demo", "--quick", *more, "--out", tmp_path / "demo"), str(tmp_path / "demo"))
