"""What the documentation names is there, and what is there the documentation names."""

import pkgutil
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

import deepwishart
from deepwishart.cli import app

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.rst"))
INTERNAL = {"native"}  # what numerics computes with


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def public_modules() -> set[str]:
    found = {module.name for module in pkgutil.iter_modules(deepwishart.__path__)}
    return {name for name in found - INTERNAL if not name.startswith("_")}


def test_every_public_module_has_a_page_and_every_page_a_module() -> None:
    pages = {page.stem for page in (DOCS / "api").glob("*.rst")} - {"index", "deepwishart"}
    assert pages == public_modules(), "docs/api has one page for each public module"
    index = read("docs/api/index.rst")
    for name in pages:
        assert f".. automodule:: deepwishart.{name}\n" in read(f"docs/api/{name}.rst")
        assert f"   {name}\n" in index, f"{name} is not in docs/api/index.rst"


def commands(page: Path) -> list[str]:
    lines = re.findall(r"^   (?:\w+)?\$ +(deepwishart .*)$", page.read_text("utf-8"), re.MULTILINE)
    return [line.strip() for line in lines]


COMMANDS = sorted({line for page in PAGES for line in commands(page)})


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_and_their_options_exist(line: str) -> None:
    words = line.split()[1:]
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    assert not hasattr(command, "commands"), f"there is no command {line!r}"
    parameters = command.get_params(typer.Context(command))  # those of models are made only then
    options = {name for parameter in parameters for name in parameter.opts}
    for word in words:
        assert not word.startswith("--") or word in options, f"{word} in {line!r} does not exist"


def test_the_map_in_contributing_is_true() -> None:
    tables = re.findall(r"(?m)^\| (?:folder|beside).*\n((?:\|.*\n)+)", read("CONTRIBUTING.md"))
    package = Path(deepwishart.__file__).parent
    owners = []
    for table, folder in zip(tables, (package, ROOT), strict=True):
        paths = re.findall(r"`([\w./]+)`", "".join(re.findall(r"(?m)^\|[^|]*\|", table)))
        owners.append({path.rstrip("/") for path in paths})
        for path in paths:
            assert (folder / path).exists(), f"{path} is on the map and nowhere else"
            assert (folder / path).is_dir() == path.endswith("/")
    present = {path.name for path in package.iterdir() if not path.name.startswith("__")}
    assert present - {"py.typed"} == owners[0]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/getting_started.rst"])
def test_make_targets_exist(name: str) -> None:
    targets = set(re.findall(r"(?m)(?:^|`)(?: *\$ +)?make ([a-z]+)", read(name)))
    assert targets and targets <= set(re.findall(r"(?m)^([a-z]+):", read("Makefile")))


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    assert deepwishart.__version__ == version
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    assert re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)[1] == version


def report_lines(section: str) -> dict[str, list[str]]:
    """Cells of depth 2 by data set: published, protocol paper, protocol converged, ..."""
    text = read("results/report/report.md").partition(f"\n## {section}")[2].partition("\n## ")[0]
    lines = re.findall(r"(?m)^\| (\w+) \| 2 \| (.*) \|$", text)
    return {name: cells.split(" | ") for name, cells in lines}


def test_numbers_of_the_readme_are_those_of_the_report() -> None:
    bounds, likelihoods = map(report_lines, ("ELBO per data point", "Test log likelihood"))
    methods = read("docs/other_methods.rst")
    rows = re.findall(r"(?m)^\| (\w+) \| (-?\d.*) \|$", read("README.md"))
    assert [name for name, _ in rows] == list(bounds)
    for name, numbers in rows:
        bound, paper_bound, likelihood, paper_likelihood, other = numbers.split(" | ")
        assert bound in bounds[name][2] and paper_bound == bounds[name][0], bounds[name]
        assert likelihood in likelihoods[name][2], likelihoods[name]
        assert paper_likelihood == likelihoods[name][0], likelihoods[name]
        assert other.partition(",")[0] in methods, f"{other} is not in docs/other_methods.rst"


def test_our_row_among_other_methods_is_that_of_the_report() -> None:
    cells = re.search(r"this library .*\n((?:     -.*\n){9})", read("docs/other_methods.rst"))[1]
    likelihoods = report_lines("Test log likelihood")
    for name, cell in zip(likelihoods, cells.splitlines(), strict=True):
        assert cell[7:] in likelihoods[name][1], f"the report says: {likelihoods[name]}"
