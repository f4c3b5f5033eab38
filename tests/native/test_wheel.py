"""A wheel with compiled operations: what is in it, and that it works without a compiler."""

import json
import logging
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import torch

from deepwishart.native import build, prebuilt

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import torch
import deepwishart as dw
from deepwishart import native

X = torch.linspace(-1, 1, 30, dtype=torch.float64).unsqueeze(-1)
torch.manual_seed(0)
model = dw.build("dwp", X, X.sin(), depth=3, num_inducing=8, dtype=torch.float64)
generator = torch.Generator().manual_seed(0)
bound = dw.elbo(model, X, X.sin(), num_data=30, num_samples=2, generator=generator)
bound.backward()
slope = sum(p.grad.abs().sum().item() for p in model.parameters())
used = str(native.library()) if native.status() == "loaded" else native.status()
found = [used, bound.item(), slope]
"""


def run(*command: str | Path, **environment: str) -> str:
    inherited = {k: v for k, v in os.environ.items() if k not in ("CXX", "DEEPWISHART_NATIVE")}
    done = subprocess.run(
        list(map(str, command)),
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def fresh_environment(folder: Path) -> Path:
    """A Python that has the dependencies of this one, but no deepwishart yet."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(str(Path(torch.__file__).parents[1]) + "\n")
    return folder / "bin" / "python"


@pytest.fixture
def quick_compiler(tmp_path):
    """The compiler without its optimisations, which take it longer than the rest."""
    script = tmp_path / "compiler"
    script.write_text(f'#!/bin/bash\nexec {" ".join(build._compiler())} "${{@/-O3/-O0}}"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.slow
def test_a_wheel_carries_its_operations_to_where_there_is_no_compiler(tmp_path, quick_compiler):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    options = ["--no-build-isolation", "--no-deps", "--wheel-dir", tmp_path]
    run(*pip, "wheel", *options, ROOT, DEEPWISHART_BUILD_NATIVE="1", CXX=quick_compiler)
    (wheel,) = tmp_path.glob("deepwishart-*-py3-none-*.whl")
    assert not wheel.name.endswith("-any.whl")
    content = zipfile.ZipFile(wheel)
    carried = [name for name in content.namelist() if name.endswith(".so")]
    assert len(carried) == len(prebuilt._families())
    for name in carried:
        assert name.startswith(f"deepwishart/native/prebuilt/{prebuilt.torch_name()}/")
        assert str(ROOT).encode() not in content.read(name)

    python = fresh_environment(tmp_path / "fresh")
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    home = tmp_path / "home"
    without = {"PYTHONPATH": "", "PATH": "", "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    here: dict = {}
    exec(SCRIPT, here)
    old = "from deepwishart.native import prebuilt; prebuilt.processor = frozenset\n"
    for processor in ("", old):
        script = f"{processor}{SCRIPT}import json; print(json.dumps(found))"
        used, *values = json.loads(run(python, "-c", script, **without))
        assert Path(used).is_relative_to(tmp_path / "fresh")
        assert values == pytest.approx(here["found"][1:], rel=1e-7)
    assert not home.exists()


@pytest.fixture
def carried(tmp_path):
    """What a wheel for this PyTorch would carry on a common processor."""
    folder = tmp_path / prebuilt.torch_name()
    folder.mkdir()
    for family in ("x86-64-v3", "x86-64"):
        (tmp_path / "fresh").write_text(family)
        (tmp_path / "fresh").rename(folder / f"{family}-{build._checksum(tmp_path / 'fresh')}.so")
    return folder


@pytest.fixture
def x86(monkeypatch):
    monkeypatch.setattr(prebuilt.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(prebuilt, "processor", lambda: prebuilt._FAMILIES["x86-64-v3"] | {"sse2"})


def test_the_processor_decides(carried, x86, monkeypatch):
    assert prebuilt.find(carried.parent).read_text() == "x86-64-v3"
    for missing in prebuilt._FAMILIES["x86-64-v3"]:
        flags = prebuilt._FAMILIES["x86-64-v3"] - {missing}
        monkeypatch.setattr(prebuilt, "processor", lambda flags=flags: flags)
        assert prebuilt.find(carried.parent).read_text() == "x86-64"


def test_a_source_install_carries_nothing(tmp_path, caplog):
    assert prebuilt.find(tmp_path / "prebuilt") is None
    assert not caplog.records


def test_another_torch_is_refused_in_one_line(carried, x86, caplog):
    shutil.move(carried, carried.with_name("torch-1.13"))
    with caplog.at_level(logging.WARNING, logger="deepwishart"):
        assert prebuilt.find(carried.parent) is None
    (record,) = caplog.records
    assert "torch-1.13, not for torch-2." in record.getMessage()


def test_damaged_libraries_are_not_used(carried, x86, caplog):
    for path in carried.iterdir():
        os.truncate(path, 3)
    assert prebuilt.find(carried.parent) is None
    assert "is damaged" in caplog.text
