"""The command as a whole: help, version, errors, what it does not import."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from typer.main import get_command

import deepwishart
from deepwishart.cli import app
from deepwishart.cli.errors import CommandError

from .conftest import SOURCE, TINY, refused, run

HEAVY = ["torch", "sklearn", "polars", "matplotlib", "numpy", "scipy"]
COMMANDS = ["demo", "fit", "predict", "info", "data", "uci"]
LIGHT = ["demo", "predict", "info", "explain", "data", "bench step", "uci"]


def test_help_imports_nothing_heavy():
    """Half a second is not enough to import torch."""
    code = f"""
import json, sys
from deepwishart.cli import app
for words in ["--help", "--version", *(name + " --help" for name in {LIGHT})]:
    try:
        app(words.split())
    except SystemExit as end:
        assert end.code == 0, words
print("loaded:" + json.dumps([name for name in {HEAVY} if name in sys.modules]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.rpartition("loaded:")[2]) == []


def test_import_of_the_package_is_lazy_and_complete():
    code = f"""
import sys
import deepwishart as dw
assert not [name for name in {HEAVY} if name in sys.modules]
from deepwishart import DeepKernelRegressor, build, kernels
for name in dw.__all__:
    assert name in dir(dw) and getattr(dw, name) is not None
assert dw.kernels is kernels and dw.start.build is build
from deepwishart import *
try:
    dw.bild
except AttributeError as error:
    assert "bild" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, check=True)


def test_no_command_shows_help():
    result = run()
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)
    assert run("--version").output == f"deepwishart {deepwishart.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fti"], ["'fti'", "'fit'"]),
        (["fit"], ["TABLE", "deepwishart fit --help"]),
        (["fit", "a.csv", "--target", "y"], ["--out"]),
        (["fit", "a.csv", "--target", "y", "--out", "m", "--depth", "0"], ["depth"]),
        (["predict", "m"], ["TABLE"]),
        (["predict", "m", "t.csv", "--unseen", "pryor"], ["Did you mean 'prior'?"]),
        (["predict", "m", "new.csv", "--quantiles", "--out", "p.csv"], ["--quantiles"]),
    ],
)
def test_wrong_usage_is_one_line(arguments, words):
    refused(run(*arguments), *words)


def test_unexpected_errors_keep_their_traceback_and_others_on_demand(monkeypatch, tmp_path):
    """A bug is not to be mistaken for bad input."""
    with monkeypatch.context() as patch:
        patch.setattr("deepwishart.cli.directory.ModelDirectory.load", lambda _: 1 / 0)
        assert isinstance(run("info", tmp_path).exception, ZeroDivisionError)
    monkeypatch.setenv("DEEPWISHART_TRACEBACK", "1")
    assert isinstance(run("info", tmp_path / "none").exception, CommandError)


def test_commands_of_the_readme_run_as_printed(tmp_path, monkeypatch):
    text = (SOURCE.parent / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Command line")[2].partition("\n## ")[0]
    commands = re.findall(r"(?m)^deepwishart (.*)$", section)
    assert [command.split()[0] for command in commands] == ["example", "fit", "info", "predict"]
    monkeypatch.chdir(tmp_path)
    for command, more in zip(commands, [[], TINY, [], []], strict=True):
        result = run(*shlex.split(command), *more)
        assert result.exit_code == 0, result.output
    assert (tmp_path / "predictions.csv").read_text().startswith("mean,std,q0.05,q0.5,q0.95\n")


@pytest.mark.slow
def test_the_demo_leaves_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("demo", "--quick")
    assert result.exit_code == 0, result.output
    assert "deepwishart fit" in result.output and "plain GP" in result.output
    assert (tmp_path / "deepwishart-demo" / "index.html").exists()


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
    assert complete("deepwishart ex") == ["example", "explain"]
    assert complete("deepwishart fit t.csv --process d") == ["dwp", "dgp", "dsvi", "diwp"]
    assert complete("deepwishart predict m t.csv --unseen p") == ["prior"]
