"""``kernels.cpp`` to a library, with the system's C++ compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import torch

__all__ = ["OPTIONS", "SOURCES", "NativeUnavailable", "compile_kernels"]

_FOLDER = Path(__file__).parent
SOURCES = (_FOLDER / "kernels.cpp", *sorted(_FOLDER.glob("*.h")))
OPTIONS = (
    "-std=c++20",
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp",
    "-fPIC",
    "-shared",
)
_TIMEOUT_SECONDS = 300


class NativeUnavailable(RuntimeError):
    """The native library is turned off or cannot be had here."""


def compile_kernels(output: Path, *, architecture: str | None) -> None:
    """Compile the operations for this ``-march``; for the compiler's default if ``None``."""
    compiler = _compiler()
    target = [] if architecture is None else [f"-march={architecture}"]
    command = [*compiler, *OPTIONS, *target, str(SOURCES[0]), "-o", str(output), *_torch_flags()]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NativeUnavailable(f"{compiler[0]} did not run: {error}") from error
    if done.returncode != 0:
        first = next((x for x in done.stderr.splitlines() if "error" in x), "no message")
        raise NativeUnavailable(f"{compiler[0]} failed: {first.strip()}")


def _compiler() -> list[str]:
    named = shlex.split(os.environ.get("CXX", ""))
    if named:
        return named
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        raise NativeUnavailable("no C++ compiler was found (install g++ for faster training)")
    return [found]


def _torch_flags() -> list[str]:
    # No run path: PyTorch's libraries are in the process before ours is loaded.
    root = Path(torch.__file__).parent
    include = root / "include"
    return [
        f"-I{include}",
        f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-L{root / 'lib'}",
        # Messages name files; where they were on the machine that compiled is nobody's business.
        f"-ffile-prefix-map={root}=torch",
        f"-ffile-prefix-map={_FOLDER}=deepwishart/native",
        "-ltorch_cpu",
        "-lc10",
    ]
