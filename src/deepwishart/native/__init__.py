"""Compiled loops for CPUs; without them nothing is lost but speed.

A wheel carries them (:mod:`deepwishart.native.prebuilt`). In a source install they are compiled
when they are first wanted, where there is a C++ compiler, and kept in the user's cache
(:mod:`deepwishart.native.build`). ``DEEPWISHART_NATIVE=0`` turns them off; ``python -m
deepwishart.native`` compiles them ahead of time and says which library is used.
:mod:`deepwishart.numerics.operation` makes them the CPU kernels of its operations.
"""

from __future__ import annotations

import functools
import logging
import os
from pathlib import Path

import torch

from deepwishart.native import prebuilt
from deepwishart.native.build import CacheRefused, NativeUnavailable, find_or_compile

__all__ = ["NativeUnavailable", "library", "status"]

_log = logging.getLogger("deepwishart")


@functools.cache
def status() -> str:
    """``"loaded"``, or why the native library is not used, for as long as the process lives.

    >>> isinstance(status(), str)
    True
    """
    try:
        library()
    except NativeUnavailable as reason:
        level = logging.WARNING if isinstance(reason, CacheRefused) else logging.INFO
        _log.log(level, "training without native kernels: %s", reason)
        return str(reason)
    return "loaded"


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
    return _load(find_or_compile())


def _load(path: Path) -> Path:
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise NativeUnavailable(f"{path} does not load: {error}") from error
    return path
