"""The code and the commands on the pages of the documentation are those of the package."""

import importlib.util
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer

import deepwishart as dw
from deepwishart.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("*.rst"))


def python_blocks(page: str) -> list[str]:
    text = (ROOT / "docs" / f"{page}.rst").read_text(encoding="utf-8")
    bodies = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    return [textwrap.dedent(body) for body in bodies]


def run_blocks(page: str, namespace: dict[str, Any]) -> dict[str, Any]:
    blocks = python_blocks(page)
    assert blocks, f"no Python code in {page}.rst"
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"{page}.rst, block {number}", "exec"), namespace)
    return namespace


def test_choosing() -> None:
    names = run_blocks("choosing", {"__name__": "choosing"})
    assert names["bounds"].keys() == {1, 2}
    assert all(bound.standard_error >= 0 for bound in names["bounds"].values())


def test_classification(tmp_path, monkeypatch) -> None:
    """With fewer steps than the page takes."""
    monkeypatch.chdir(tmp_path)
    (block,) = python_blocks("classification")
    quick = block.replace("Classifier(random", "Classifier(max_iter=20, n_inducing=10, random")
    names: dict[str, Any] = {"__name__": "classification"}
    exec(compile(quick, "classification.rst", "exec"), names)
    assert names["classifier"].score(names["X_test"], names["y_test"]) > 0.85
    assert (tmp_path / "tumours" / "config.json").exists()


@pytest.mark.filterwarnings("ignore:Training ended")
def test_likelihoods() -> None:
    names = run_blocks("likelihoods", {"__name__": "likelihoods"})
    lower, upper = names["lower"], names["upper"]
    assert lower[0] < np.e < upper[0] and lower[1] < 8 * np.e < upper[1]


def test_extending() -> None:
    X = torch.linspace(-1, 1, 20, dtype=torch.float64).unsqueeze(-1)
    names: dict[str, Any] = {"__name__": "extending", "dw": dw, "torch": torch, "X": X}
    for script in ("custom_kernel", "custom_layer", "custom_likelihood"):
        path = ROOT / "examples" / f"{script}.py"
        specification = importlib.util.spec_from_file_location(script, path)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        names |= {n: v for n, v in vars(module).items() if isinstance(v, type)}
    names["y"] = (X > 0).double()  # the page's last model is a classifier
    run_blocks("extending", names)
    assert type(names["model"].likelihood).__name__ == "Logistic"
    names["test_my_parts"]()


def test_gpu() -> None:
    names = run_blocks("gpu", {"__name__": "gpu"})
    assert names["prediction"].mean.dtype == torch.float32
    assert names["model"].device.type == "cpu" and names["bound"].isfinite()


def test_research(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.chdir(tmp_path)
    names = run_blocks("research", {"__name__": "research"})
    assert names["bounds"].keys() == {"mean field", "dwp"}
    assert names["error"] < 0.5  # the spread of the truth is 0.9, outliers lie at 3
    assert names["log_density"].shape == (30,)
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2


def commands(page: Path) -> list[str]:
    lines = re.findall(r"^   (?:\w+)?\$ +(deepwishart .*)$", page.read_text("utf-8"), re.MULTILINE)
    return [line.strip() for line in lines]


COMMANDS = sorted({line for page in PAGES for line in commands(page)})


def test_commands_were_found() -> None:
    assert len(COMMANDS) >= 8


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_and_their_options_exist(line: str) -> None:
    words = line.split()[1:]
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    assert not hasattr(command, "commands"), f"there is no command {line!r}"
    options = {name for parameter in command.params for name in parameter.opts}
    for word in words:
        assert not word.startswith("--") or word in options, f"{word} in {line!r} does not exist"


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.rst").read_text(encoding="utf-8")
    for page in PAGES:
        if page.stem != "index":
            assert f"\n   {page.stem}\n" in index, f"{page.name} is not in index.rst"


def test_the_map_in_contributing_is_true() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    inside, beside = re.findall(r"(?m)^\| (?:folder|beside).*\n((?:\|.*\n)+)", text)
    package = Path(dw.__file__).parent
    owners = {}
    for table, folder in ((inside, package), (beside, ROOT)):
        paths = re.findall(r"`([\w./]+)`", "".join(re.findall(r"(?m)^\|[^|]*\|", table)))
        owners[folder] = {path.rstrip("/") for path in paths}
        for path in paths:
            assert (folder / path).exists(), f"{path} is on the map and nowhere else"
            assert (folder / path).is_dir() == path.endswith("/")
    present = {path.name for path in package.iterdir() if not path.name.startswith("__")}
    assert present - {"py.typed"} == owners[package]


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/getting_started.rst"])
def test_make_targets_exist(name: str) -> None:
    targets = re.findall(r"(?m)^ *\$? ?make ([a-z]+)", (ROOT / name).read_text(encoding="utf-8"))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets
    for target in targets:
        assert re.search(rf"(?m)^{target}:", makefile), f"no target {target!r} in Makefile"
