"""The code on the pages of the documentation, in README and in CONTRIBUTING runs as printed."""

import contextlib
import importlib.util
import re
import textwrap
from collections.abc import Callable
from math import log, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import deepwishart as dw

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
BLOCKS = {
    ".rst": re.compile(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", re.MULTILINE),
    ".md": re.compile(r"^ *```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL),
}


def run_page(name: str, names: dict[str, Any] | None = None, **replaced: str) -> dict[str, Any]:
    """Run every block of Python on a page, in order, in one namespace."""
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    names = {"__name__": path.stem, **(names or {})}
    blocks = list(BLOCKS[path.suffix].finditer(text))
    assert blocks, f"no Python code in {name}"
    for block in blocks:
        # Leading blank lines make a traceback point at the line of the file.
        code = "\n" * text.count("\n", 0, block.start(1)) + textwrap.dedent(block[1])
        for old, new in replaced.items():
            code = code.replace(f"{old}(", f"{old}({new}")
        exec(compile(code, name, "exec"), names)
    return names


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with contextlib.chdir(tmp_path_factory.mktemp("readme")):
        names = run_page("README.md")
        names["again"] = names["DeepKernelRegressor"].load("diabetes-model")
    return names


def test_readme_regressor_covers_what_it_says(readme: dict[str, Any]) -> None:
    """Of 45 rows: 0.9 within three standard errors, 0.045 each."""
    y_test = readme["y_test"]
    inside = (readme["lower"] <= y_test) & (y_test <= readme["upper"])
    assert 0.76 < inside.mean() <= 1
    # The same model; a BLAS may order its sums by where arrays lie in memory.
    again = readme["again"].predict(readme["X_test"])
    np.testing.assert_allclose(again, readme["mean"], rtol=1e-9)


def predicts_better_than_a_standard_normal(names: dict[str, Any]) -> bool:
    """The guess that ignores X; it wins against the model before training."""
    y_new = names["y_new"]
    guess = -0.5 * (log(2 * pi) + y_new.square().mean().item())
    assert names["prediction"].log_prob(y_new).mean().item() > guess + 0.1
    assert names["functions"].shape[:2] == (3, len(y_new))
    assert names["hidden"].shape[-2] == len(y_new)
    return bool((names["high"] > names["prediction"].mean).all())


PAGES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "CONTRIBUTING.md": lambda names: True,
    "docs/getting_started.rst": predicts_better_than_a_standard_normal,
    "docs/choosing.rst": lambda names: names["bounds"].keys() == {1, 2},
    "docs/gpu.rst": lambda names: names["prediction"].mean.dtype == torch.float32,
}


@pytest.mark.parametrize("page", PAGES)
def test_pages(page: str) -> None:
    assert PAGES[page](run_page(page))


def test_classification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer steps than the page takes."""
    monkeypatch.chdir(tmp_path)
    names = run_page("docs/classification.rst", DeepKernelClassifier="max_iter=20, n_inducing=10, ")
    assert names["classifier"].score(names["X_test"], names["y_test"]) > 0.85
    assert (tmp_path / "tumours" / "config.json").exists()


@pytest.mark.filterwarnings("ignore:Training ended")
def test_likelihoods() -> None:
    names = run_page("docs/likelihoods.rst")
    lower, upper = names["lower"], names["upper"]
    assert lower[0] < np.e < upper[0] and lower[1] < 8 * np.e < upper[1]


def test_extending() -> None:
    X = torch.linspace(-1, 1, 20, dtype=torch.float64).unsqueeze(-1)
    names: dict[str, Any] = {"dw": dw, "torch": torch, "X": X}
    for script in ("custom_kernel", "custom_layer", "custom_likelihood"):
        path = ROOT / "examples" / f"{script}.py"
        specification = importlib.util.spec_from_file_location(script, path)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        names |= {n: v for n, v in vars(module).items() if isinstance(v, type)}
    names = run_page("docs/extending.rst", {**names, "y": (X > 0).double()})  # ends in a classifier
    assert type(names["model"].likelihood).__name__ == "Logistic"
    names["test_my_parts"]()


def test_research(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.chdir(tmp_path)
    names = run_page("docs/research.rst")
    assert names["bounds"].keys() == {"mean field", "dwp"}
    assert names["error"] < 0.5  # the spread of the truth is 0.9, outliers lie at 3
    assert names["log_density"].shape == (30,)
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2
