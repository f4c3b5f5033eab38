"""The documentation covers the package, its code runs, and the version is the same everywhere."""

import pkgutil
import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

import deepwishart

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def public_modules() -> list[str]:
    found = (module.name for module in pkgutil.iter_modules(deepwishart.__path__))
    return sorted(name for name in found if not name.startswith("_"))


def code_blocks(page: Path) -> list[str]:
    """The bodies of ``.. code-block:: python`` directives in a reST page, in order."""
    text = page.read_text(encoding="utf-8")
    bodies = re.findall(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)
    return [textwrap.dedent(body) for body in bodies]


def test_getting_started_runs():
    namespace: dict[str, Any] = {"__name__": "getting_started"}
    blocks = code_blocks(DOCS / "getting_started.rst")
    for number, block in enumerate(blocks, start=1):
        exec(compile(block, f"getting_started.rst, block {number}", "exec"), namespace)
    assert namespace["prediction"].mean.shape[0] == 5
    assert namespace["functions"].shape[:2] == (3, 5)
    assert namespace["bound"].shape == ()


@pytest.mark.parametrize("name", public_modules())
def test_every_public_module_has_a_page(name):
    page = DOCS / "api" / f"{name}.rst"
    assert page.exists(), f"deepwishart.{name} has no page: add docs/api/{name}.rst"
    assert f".. automodule:: deepwishart.{name}\n" in page.read_text(encoding="utf-8")
    assert f"   {name}\n" in (DOCS / "api" / "index.rst").read_text(encoding="utf-8")


def test_every_page_has_its_module():
    pages = {page.stem for page in (DOCS / "api").glob("*.rst")} - {"index", "deepwishart"}
    assert pages == set(public_modules())


def test_the_version_is_the_same_everywhere():
    assert deepwishart.__version__ == VERSION
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^version: {re.escape(VERSION)}$", citation, re.MULTILINE)
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == VERSION
