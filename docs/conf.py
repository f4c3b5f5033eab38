"""Sphinx configuration; build with ``make docs``."""

import sys
import tomllib
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))
project_table = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]

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
    "sphinx_gallery.gen_gallery",
    "command_line",
    "links",
]
exclude_patterns = ["_build", "_extensions", "pictures"]

html_theme = "furo"
html_title = f"deepwishart {release}"
html_show_sourcelink = False

# MathJax with all its fonts in one file, so that formulas need no network.
mathjax = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
mathjax_path = "tex-svg-full.js"
html_static_path = [str(mathjax / mathjax_path)]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
# Methods that override torch's without a docstring of their own would otherwise print torch's.
autodoc_inherit_docstrings = False

napoleon_numpy_docstring = False
# "Attributes:" sections would otherwise describe dataclass fields a second time.
napoleon_use_ivar = True

python_maximum_signature_line_length = 88

sphinx_gallery_conf = {
    "examples_dirs": ["../examples", "pictures"],
    "gallery_dirs": ["gallery", "plots"],
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"train_distributed",  # needs several processes
    "image_scrapers": ("gallery.pictures",),
    "reset_modules": (),
    "reset_argv": "gallery.arguments",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 10**6,
    "write_computation_times": False,
    "copyfile_regex": r"never",
    "remove_config_comments": True,
}
# Pages train for a second or two, and the regressor says that it was too short.
warnings.filterwarnings("ignore", message="Training ended after|The bound, ")
# gpytorch, below BoTorch, still compiles its helpers with TorchScript.
warnings.filterwarnings("ignore", message=r"`torch\.jit\.script.*` is deprecated")


def skip_fields(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool:
    """Leave out what Python says of a named tuple's fields; the class's docstring says more."""
    return skip or str(getattr(member, "__doc__", "")).startswith("Alias for field number")


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", skip_fields)
