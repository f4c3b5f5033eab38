"""Compiles ``kernels.cpp`` once per machine and loads it; without a compiler nothing is lost but
speed.

The library is built on first use with the system's C++ compiler and kept in the user's cache under
a name that depends on the source, the PyTorch version and the processor. ``DEEPWISHART_NATIVE=0``
turns it off; ``python -m deepwishart._native`` builds it ahead of time and says what it did.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = ["NativeUnavailable", "build", "operations", "status"]

_SOURCE = Path(__file__).with_name("kernels.cpp")
_OPTIONS = [
    "-std=c++20",
    "-O3",
    "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp",
    "-fPIC",
    "-shared",
]
_TIMEOUT_SECONDS = 300
_log = logging.getLogger("deepwishart")


class NativeUnavailable(RuntimeError):
    """The native library is turned off or cannot be built here."""


def operations(*tensors: Tensor) -> Any | None:
    """The native operations if they can serve these tensors, else ``None``."""
    if any(
        t.device.type != "cpu" or t.dtype not in (torch.float32, torch.float64) for t in tensors
    ):
        return None
    return _library()


def status() -> str:
    """``"loaded"``, or why the native library is not used.

    >>> isinstance(status(), str)
    True
    """
    try:
        _load()
    except NativeUnavailable as reason:
        return str(reason)
    return "loaded"


def build() -> Path:
    """The compiled library, built now if it is not in the cache yet."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise NativeUnavailable("no C++ compiler was found (install g++ for faster training)")
    target = _cache_directory() / f"kernels-{_fingerprint(compiler)}.so"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    _log.info("compiling the native kernels once for this machine: %s", target)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        fresh = Path(scratch) / "kernels.so"
        command = [compiler, *_OPTIONS, str(_SOURCE), "-o", str(fresh), *_torch_flags()]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NativeUnavailable(f"{compiler} did not run: {error}") from error
        if done.returncode != 0:
            first = next((x for x in done.stderr.splitlines() if "error" in x), "no message")
            raise NativeUnavailable(f"{compiler} failed: {first.strip()}")
        os.replace(fresh, target)  # atomic: another process may be doing the same
    return target


@functools.cache
def _library() -> Any | None:
    try:
        return _load()
    except NativeUnavailable as reason:
        _log.info("training without native kernels: %s", reason)
        return None


@functools.cache
def _load() -> Any:
    if os.environ.get("DEEPWISHART_NATIVE", "1") == "0":
        raise NativeUnavailable("turned off by DEEPWISHART_NATIVE=0")
    library = build()
    try:
        torch.ops.load_library(library)
    except OSError as error:
        raise NativeUnavailable(f"{library} does not load: {error}") from error
    _keep_freed_memory()
    return torch.ops.deepwishart


def _keep_freed_memory() -> None:
    """Have glibc keep up to a quarter gibibyte of freed memory instead of returning it.

    A training step frees all its blocks at once. Returned to the operating system, every page
    of them is cleared and mapped anew in the next step, which costs about a tenth of the step.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_threshold, 2**25)
    libc.mallopt(trim_threshold, 2**28)


def _cache_directory() -> Path:
    import pooch  # type: ignore[import-untyped]

    return Path(pooch.os_cache("deepwishart")) / "native"


def _fingerprint(compiler: str) -> str:
    digest = hashlib.sha256(_SOURCE.read_bytes())
    for header in sorted(_SOURCE.parent.glob("*.h")):
        digest.update(header.read_bytes())
    parts = [compiler, *_OPTIONS, torch.__version__, platform.machine(), _processor()]
    digest.update("\n".join(parts).encode())
    return digest.hexdigest()[:16]


def _processor() -> str:
    """What ``-march=native`` depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _torch_flags() -> list[str]:
    root = Path(torch.__file__).parent
    include = root / "include"
    return [
        f"-I{include}",
        f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        f"-L{root / 'lib'}",
        f"-Wl,-rpath,{root / 'lib'}",
        "-ltorch_cpu",
        "-lc10",
    ]
