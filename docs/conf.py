"""Sphinx configuration; build with ``make docs``."""

import tomllib
from pathlib import Path

project_table = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

project = "deepwishart"
author = "The deepwishart authors"
copyright = "2026, The deepwishart authors"
release = project_table["version"]
version = release

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"deepwishart {release}"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
# Methods that override torch's without a docstring of their own would otherwise print torch's.
autodoc_inherit_docstrings = False

napoleon_numpy_docstring = False
# "Attributes:" sections would otherwise describe dataclass fields a second time.
napoleon_use_ivar = True

python_maximum_signature_line_length = 88
