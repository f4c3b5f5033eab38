"""Compiled operations for CPUs; without them nothing is lost but speed.

A wheel carries them (:mod:`deepwishart.native.prebuilt`). In a source install they are compiled on
first use, where there is a C++ compiler, and kept in the user's cache
(:mod:`deepwishart.native.cache`). ``DEEPWISHART_NATIVE=0`` turns them off; ``python -m
deepwishart.native`` compiles them ahead of time and says which library is used.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepwishart.native import cache, prebuilt
from deepwishart.native.compiler import NativeUnavailable
from deepwishart.native.fakes import register_all

__all__ = ["NativeUnavailable", "build", "library", "operations", "status"]

_log = logging.getLogger("deepwishart")


def operations(tensor: Tensor) -> Any | None:
    """The native operations if they can serve tensors like this one, else ``None``."""
    served = tensor.is_cpu and tensor.dtype in (torch.float64, torch.float32)
    return torch.ops.deepwishart if served and _available() else None


def status() -> str:
    """``"loaded"``, or why the native library is not used.

    >>> isinstance(status(), str)
    True
    """
    try:
        library()
    except NativeUnavailable as reason:
        return str(reason)
    return "loaded"


def build() -> Path:
    """The library compiled for this machine, built now if it is not in the cache yet."""
    return cache.find_or_compile()


@functools.cache
def library() -> Path:
    """The library in use, loaded now if it was not yet."""
    if os.environ.get("DEEPWISHART_NATIVE", "1") == "0":
        raise NativeUnavailable("turned off by DEEPWISHART_NATIVE=0")
    carried = prebuilt.find()
    if carried is not None:
        try:
            return _load(carried)
        except NativeUnavailable as reason:
            _log.warning("deepwishart: %s", reason)
    return _load(build())


@torch.compiler.assume_constant_result  # torch.compile would trace how the library is loaded
def _available() -> bool:
    found = _loads()
    if found and "torch._dynamo" in sys.modules:
        register_all()
    return found


@functools.cache
def _loads() -> bool:
    try:
        library()
    except NativeUnavailable as reason:
        level = logging.WARNING if isinstance(reason, cache.CacheRefused) else logging.INFO
        _log.log(level, "training without native kernels: %s", reason)
        return False
    return True


def _load(path: Path) -> Path:
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise NativeUnavailable(f"{path} does not load: {error}") from error
    _keep_freed_memory()
    return path


def _keep_freed_memory() -> None:
    """Have glibc keep up to a quarter gibibyte of freed memory instead of returning it.

    A training step frees all its blocks at once. Returned to the operating system, every page
    of them is cleared and mapped anew in the next step (``benchmarks/allocator.py``).
    """
    if platform.libc_ver()[0] != "glibc":
        return
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_threshold, 2**25)
    libc.mallopt(trim_threshold, 2**28)
