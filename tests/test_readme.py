"""The code in README.md and CONTRIBUTING.md runs as printed, and the model in it learns."""

import contextlib
import re
import textwrap
from collections.abc import Iterator
from math import log, pi
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run_python_blocks(text: str, filename: str) -> dict[str, Any]:
    """Run every fenced Python block of a Markdown text, in order, in one namespace."""
    namespace: dict[str, Any] = {"__name__": "readme"}
    blocks = list(re.finditer(r"^ *```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE))
    assert blocks, f"no Python code in {filename}"
    for block in blocks:
        # Leading blank lines make a traceback point at the line of the file.
        first_line = text.count("\n", 0, block.start(1))
        code = "\n" * first_line + textwrap.dedent(block[1])
        exec(compile(code, filename, "exec"), namespace)
    return namespace


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with contextlib.chdir(tmp_path_factory.mktemp("readme")):
        yield run_python_blocks(README, "README.md")


def test_readme_regressor_covers_what_it_says(names):
    inside = (names["lower"] <= names["y_test"]) & (names["y_test"] <= names["upper"])
    assert 0.75 < inside.mean() <= 1
    again = names["DeepKernelRegressor"].load("diabetes-model")
    assert (again.predict(names["X_test"]) == names["mean"]).all()


def test_readme_code_predicts_better_than_the_prior_guess(names):
    """A standard normal, the guess that ignores X, loses to the fitted model.

    It wins against the model before training, so this also checks that training helps.
    """
    y_new = names["y_new"]
    guess = -0.5 * (log(2 * pi) + y_new.square().mean().item())
    fitted = names["prediction"].log_prob(y_new).mean().item()
    assert fitted > guess + 0.1


def test_readme_shapes(names):
    num_new = len(names["X_new"])
    assert names["prediction"].mean.shape[0] == num_new
    assert names["functions"].shape[:2] == (3, num_new)
    assert (names["high"] > names["prediction"].mean).all()


def test_contributing_code_runs():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    run_python_blocks(text, "CONTRIBUTING.md")


def test_numbers_are_those_of_the_report():
    """Of the three data sets on the first screen, and of our row among other methods."""
    report = (ROOT / "results" / "report" / "report.md").read_text(encoding="utf-8")
    bounds, likelihoods = report.partition("\n## Test log likelihood")[::2]
    rows = re.findall(r"(?m)^\| (yacht|boston|energy) \| (.*) \|$", README)
    assert len(rows) == 3
    page = (ROOT / "docs" / "other_methods.rst").read_text(encoding="utf-8")
    cells = re.search(r"this library .*\n((?:     -.*\n){9})", page)[1].splitlines()
    ours = dict(zip(("boston", "", "energy", *[""] * 5, "yacht"), cells, strict=True))
    for name, numbers in rows:
        for text, found in ((bounds, numbers.split(" | ")), (likelihoods, [ours[name][7:]])):
            line = re.search(rf"(?m)^\| {name} \| 2 \|.*$", text)[0]
            assert all(number in line for number in found), f"the report says: {line}"


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?m)(?:^|`)make ([a-z]+)", README))))
def test_make_targets_of_the_readme_exist(target):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"no target '{target}' in Makefile"
