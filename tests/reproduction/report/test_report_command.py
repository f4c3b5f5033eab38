"""``deepwishart uci report``, from the outside."""

import pytest
from typer.testing import CliRunner

from deepwishart.cli import app


def command(*arguments):
    return CliRunner().invoke(app, ["uci", "report", *map(str, arguments)])


def test_report(make_results, tmp_path):
    result = command(make_results(num_splits=1), "--out", tmp_path / "report")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Protocol paper: 16 of 144 cells run, 0 judged")
    assert [line.rsplit(".")[-1] for line in lines[1:]] == ["md", "tex", "html"]
    assert all(
        (tmp_path / "report" / f"report.{end}").stat().st_size for end in ("md", "tex", "html")
    )


def test_what_was_left_out_is_said(make_results, tmp_path):
    results = make_results(num_splits=1)
    with open(results / "runs.jsonl", "a") as file:
        file.write('{"torn')
    result = command(results, "--out", tmp_path / "report")
    assert result.exit_code == 0
    assert "1 line of runs.jsonl could not be read" in result.stderr
    assert "1 line of runs.jsonl could not be read" in (tmp_path / "report/report.md").read_text()


@pytest.mark.parametrize("arguments", [["nowhere"], [".", "--protocol"]])
def test_wrong_usage(tmp_path, arguments):
    result = command(tmp_path / arguments[0], *arguments[1:], "--out", tmp_path / "report")
    assert result.exit_code == 2
    assert result.stderr.startswith("deepwishart: ") and result.stderr.count("\n") == 1
