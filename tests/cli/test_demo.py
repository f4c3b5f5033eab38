"""deepwishart demo."""

import base64
import re

from deepwishart.cli.demo import page

from .conftest import refused, run


def test_quick_demo_writes_one_page_that_needs_nothing_else(tmp_path):
    result = run("demo", "--quick", "--out", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    for words in ("ELBO", "log likelihood", "RMSE", "CRPS", "90%", "seconds"):
        assert words in result.output
    assert [entry.name for entry in (tmp_path / "demo").iterdir()] == ["index.html"]
    page = (tmp_path / "demo" / "index.html").read_text()
    images = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert len(images) == page.count("<img") == 4
    assert all(base64.b64decode(image).startswith(b"\x89PNG") for image in images)
    text = re.sub(r'base64,[^"]+', "", page)
    assert not re.search(r"http|//|@import|<script|<link|url\(", text)
    for words in ("Training", "Predictions", "Calibration", "Gram matrices"):
        assert words in text


def test_page_escapes_text():
    text = page("<script>", ["<"], [["&"]], [])
    assert "<script>" not in text
    assert "<td>&amp;</td>" in text


def test_out_that_is_a_file(tmp_path):
    (tmp_path / "demo").write_text("")
    refused(run("demo", "--quick", "--out", tmp_path / "demo"), str(tmp_path / "demo"))
