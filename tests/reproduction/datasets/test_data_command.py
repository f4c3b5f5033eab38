"""``deepwishart data list | download | verify``."""

import pytest
from typer.testing import CliRunner

from deepwishart.cli import app


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["data", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def _named_folder(folder, monkeypatch):
    monkeypatch.setenv("DEEPWISHART_DATA", str(folder))


@pytest.mark.usefixtures("_named_folder")
def test_verify_names_every_bad_file(folder):
    (folder / "UCI_Datasets/yacht/data/data.txt").write_text("1 2 3")
    (folder / "UCI_Datasets/yacht/data/n_splits.txt").unlink()
    code, out, err = call("verify", "yacht")
    assert code == 2
    assert "yacht/data/data.txt is altered (it has 5 bytes" in out
    assert "yacht/data/n_splits.txt is missing" in out
    assert "2 of 8 files are not as published" in err and "unset DEEPWISHART_DATA" in err


def test_download_refuses_what_is_not_published(server, monkeypatch, tmp_path):
    """The server has files of the right names, but not those of the shipped registry."""
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    monkeypatch.setenv("DEEPWISHART_DATA_URL", server.url)
    code, _, err = call("download", "yacht", "--to", str(tmp_path / "new"))
    assert code == 2
    assert "UCI_Datasets/yacht/data/" in err and err.count("\n") == 1
    assert [path for path in (tmp_path / "new").rglob("*") if path.is_file()] == []


def test_list_shows_the_published_sizes(tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPWISHART_DATA", str(tmp_path))
    code, out, _ = call("list")
    assert code == 0
    rows = {line.split()[0]: line.split()[1:4] for line in out.splitlines() if line.strip()}
    assert rows["protein"] == ["45730", "9", "5"] and rows["boston"] == ["506", "13", "20"]
    assert "44 missing or damaged" in out and str(tmp_path) in out.replace("\n", "")
