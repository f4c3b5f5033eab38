"""deepwishart demo, and the pages that it and others write."""

import re

import pytest
from matplotlib.figure import Figure

from deepwishart._support.pages import picture, render

from .conftest import refused, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("more", "said", "shown"),
    [
        ([], ["--depth 3", "RMSE", "CRPS", "90%"], ["calibrated", "Residuals"]),
        (
            ["--classification"],
            ["log loss", "accuracy", "Brier score"],
            ["reliability", "true class", "malignant"],
        ),
    ],
)
def test_quick_demo_writes_one_page_that_needs_nothing_else(tmp_path, more, said, shown):
    result = run("demo", "--quick", "--out", tmp_path / "demo", *more)
    assert result.exit_code == 0, result.output
    for words in ("deepwishart fit", "linear model", "plain GP", *said):
        assert words in result.output
    page = (tmp_path / "demo" / "index.html").read_text()
    assert not re.search(r"https?:|//|@import|<script|<link|url\((?!#)", page)
    for words in ("Relevance", "Training", *shown):
        assert words in page
    (tmp_path / "file").write_text("")
    refused(run("demo", "--quick", *more, "--out", tmp_path / "file"), str(tmp_path / "file"))


def test_pages_escape_text_and_pictures_take_their_colours():
    figure = Figure()
    figure.subplots().plot([0, 1], [0, 1], color="#0072B2")
    svg = picture(figure, 'say "x"')
    assert "var(--blue)" in svg and "currentColor" in svg
    assert "#0072b2" not in svg and "#000000" not in svg
    assert 'aria-label="say &#34;x&#34;"' in svg
    counts = dict.fromkeys(("inducing", "steps", "rows", "rows_held_out", "left_out"), 1)
    counts |= dict.fromkeys(("inputs", "elbo", "rows_dealt"), 1)
    target = {"name": "y", "scores": [("h", ["<"], [["&", "1"]], [1])], "reliability": svg}
    page = render(
        "fit_report.html",
        title="a < b",
        what="<script>",
        structure="",
        classes=["c"],
        targets=[{**target, "confusion": []}],
        relevance=svg,
        relevance_lines=[],
        curves=svg,
        noise=False,
        columns=[],
        **counts,
    )
    assert "<script>" not in page and "<h1>a &lt; b</h1>" in page and "<svg" in page
    assert "<td>&amp;</td><td class=best>1</td>" in page and "<th>&lt;</th>" in page
    dark = page[page.index("prefers-color-scheme: dark") :]
    for name in set(re.findall(r"var\((--\w+)\)", page)):
        assert page.count(f"{name}:") == 2 and f"{name}:" in dark  # in light and in dark
