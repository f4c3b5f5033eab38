"""Which library a new process uses, and that a bad one costs no more than speed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from deepwishart.native.build import find_or_compile

SCRIPT = """
import torch
import deepwishart as dw

X = torch.linspace(-1, 1, 20, dtype=torch.float64).unsqueeze(-1)
model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5, dtype=torch.float64)
generator = torch.Generator().manual_seed(0)
bound = dw.elbo(model, X, X.sin(), num_data=20, num_samples=2, generator=generator)
assert bound.isfinite()

from deepwishart import native
print(native.status())
"""


@pytest.fixture
def cache(tmp_path):
    """A cache with the library of this machine, and no compiler to make another."""
    folder = tmp_path / "deepwishart" / "native"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    shutil.copy(find_or_compile(), folder)
    return folder


@pytest.fixture
def run(run_fresh):
    """Evaluate a bound in a new process with a given cache; every way must succeed."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("CXX", "DEEPWISHART_NATIVE")}

    def evaluate(cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {"XDG_CACHE_HOME": str(cache.parents[1]), "PATH": ""}
        done = run_fresh(SCRIPT, inherited | settings | environment)
        assert done.returncode == 0, done.stderr
        return done

    return evaluate


def the_library(cache: Path) -> Path:
    (library,) = cache.glob("*.so")
    return library


def test_an_intact_library_is_loaded_without_a_compiler(cache, run):
    done = run(cache)
    assert (done.stdout, done.stderr) == ("loaded\n", "")


def test_turned_off(cache, run):
    assert run(cache, DEEPWISHART_NATIVE="0").stdout == "turned off by DEEPWISHART_NATIVE=0\n"


def test_a_truncated_library_is_not_loaded(cache, run):
    os.truncate(the_library(cache), 100_000)
    done = run(cache)
    assert "no C++ compiler was found" in done.stdout and done.stderr == ""


def test_a_cache_that_others_can_write_to_is_refused_in_one_line(cache, run):
    cache.chmod(0o777)
    done = run(cache)
    assert done.stdout.startswith("others can write to")
    (line,) = done.stderr.splitlines()
    assert "others can write to" in line and str(cache) in line


def test_a_cache_that_cannot_be_made(run, tmp_path):
    (tmp_path / "deepwishart").write_text("a file where a folder should be")
    done = run(tmp_path / "deepwishart" / "native")
    assert "cannot be used" in done.stdout and done.stderr == ""
