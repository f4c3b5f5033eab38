"""Help that fits a terminal of 80 columns, and completion."""

import os
import subprocess
import sys

import pytest
from typer.main import get_command

from deepwishart.cli import app

from .conftest import SOURCE, run


def every_command(command, path=()):
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from every_command(inner, (*path, name))


@pytest.mark.parametrize("path", list(every_command(get_command(app))), ids=" ".join)
def test_help_fits_eighty_columns(path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    result = run(*path, "--help")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]  # cut off


def complete(words: str) -> list[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "_DEEPWISHART_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    code = "from deepwishart.cli import app; app(prog_name='deepwishart')"
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout.split()


def test_shells_complete_commands_options_and_names():
    assert complete("deepwishart ex") == ["explain"]
    assert complete("deepwishart fit t.csv --process d") == ["dwp", "dgp", "dsvi", "diwp"]
    assert complete("deepwishart predict m t.csv --unseen p") == ["prior"]
