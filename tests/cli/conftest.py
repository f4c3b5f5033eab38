"""A small table, and ways to run commands on it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from deepwishart.cli import app

SOURCE = Path(__file__).resolve().parents[2] / "src"
TINY = ["--depth", "2", "--inducing", "8", "--max-iter", "15", "--samples", "2"]


def run(*arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def start(*arguments: object) -> subprocess.Popen:
    """Start a command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "deepwishart", *(str(argument) for argument in arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def refused(result: Result, *words: str) -> None:
    """The command ended with exit code 2 and one line that has these words, no traceback."""
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("deepwishart: ")
    for word in words:
        assert word in lines[0]


def make_table(num_rows: int = 60) -> pl.DataFrame:
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, num_rows)
    size = random.integers(1, 9, num_rows)
    colour = random.choice(["red", "green", "blue"], num_rows)
    new = random.random(num_rows) < 0.5
    price = 100 + 30 * np.sin(x) + 10 * (colour == "red") + random.normal(size=num_rows)
    return pl.DataFrame(
        {"x": x, "size": size, "colour": colour, "new": new, "price": price, "rent": price / 7}
    )


@pytest.fixture(scope="session")
def table() -> pl.DataFrame:
    return make_table()


@pytest.fixture(scope="session")
def train_csv(table, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "train.csv"
    table.drop("rent").write_csv(path)
    return path


@pytest.fixture(scope="session")
def model(train_csv, tmp_path_factory) -> Path:
    """A fitted model; tests read it and leave it alone."""
    out = tmp_path_factory.mktemp("models") / "model"
    result = run("fit", train_csv, "--target", "price", "--out", out, *TINY)
    assert result.exit_code == 0, result.output
    return out
