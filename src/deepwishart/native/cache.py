"""The library of this machine, compiled once and kept in the user's cache.

Whoever can write to the cache can have this process run code. The folder and the library are
therefore used only if they belong to this user and nobody else can write to them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch

from deepwishart.native import checked
from deepwishart.native.compiler import OPTIONS, SOURCES, NativeUnavailable, compile_kernels
from deepwishart.native.processor import flags

__all__ = ["CacheRefused", "find_or_compile"]

_ARCHITECTURE = os.environ.get("DEEPWISHART_ARCHITECTURE", "native")  # a name of -march
_SECONDS_OF_A_DAY = 86_400
_log = logging.getLogger("deepwishart")


class CacheRefused(NativeUnavailable):
    """Others can write to the cache."""


def find_or_compile() -> Path:
    """The library in the cache, compiled now if there is no intact one."""
    if os.name != "posix":
        raise NativeUnavailable("native code is compiled on Linux and macOS only")
    try:
        folder = _open_folder()
        name = f"kernels-{_fingerprint()}"
        for library in checked.intact(folder, name):
            _refuse_if_shared(library)
            return library
        return _compile(folder, name)
    except OSError as error:
        raise NativeUnavailable(f"the cache of native code cannot be used: {error}") from error


def _compile(folder: Path, name: str) -> Path:
    _remove_abandoned(folder)
    prefix = f"{_scratch_prefix()}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder) as scratch:
        _announce(
            "deepwishart: compiling native code once for this machine, about half a minute "
            "(DEEPWISHART_NATIVE=0 does without)"
        )
        fresh = Path(scratch) / "kernels.so"
        compile_kernels(fresh, architecture=_ARCHITECTURE)
        return checked.keep(fresh, folder, name)


def _announce(message: str) -> None:
    """Tell a person who waits; a program that waits finds it in the log."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(message, file=sys.stderr, flush=True)
    else:
        _log.info(message)


def _open_folder() -> Path:
    import pooch  # type: ignore[import-untyped]

    try:
        folder = Path(pooch.os_cache("deepwishart")) / "native"
    except RuntimeError:  # of newer versions of platformdirs; older ones return "~"
        folder = Path("~")
    if not folder.is_absolute():
        raise NativeUnavailable("there is no home directory to keep native code in (set HOME)")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _refuse_if_shared(folder)
    return folder


def _refuse_if_shared(path: Path) -> None:
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise CacheRefused(f"{path} belongs to another user (remove it, or set XDG_CACHE_HOME)")
    if found.st_mode & 0o022:
        raise CacheRefused(f"others can write to {path} (remove it; it is made anew)")


def _fingerprint() -> str:
    """What the library depends on; not the compiler, which may be gone when it is next needed."""
    digest = hashlib.sha256()
    for source in SOURCES:
        digest.update(source.read_bytes())
    parts = [*OPTIONS, _ARCHITECTURE, torch.__version__, platform.machine(), *sorted(flags())]
    digest.update("\n".join(parts).encode())
    return digest.hexdigest()[:16]


def _scratch_prefix() -> str:
    return f"tmp-{platform.node()}-"  # a home directory may serve several machines


def _remove_abandoned(folder: Path) -> None:
    """Remove what killed compilations left behind."""
    for scratch in folder.glob("tmp*"):
        try:
            old = time.time() - scratch.stat().st_mtime > _SECONDS_OF_A_DAY
        except FileNotFoundError:  # another process was faster
            continue
        if old or _of_dead_process(scratch.name):
            shutil.rmtree(scratch, ignore_errors=True)


def _of_dead_process(name: str) -> bool:
    process = name.removeprefix(_scratch_prefix()).partition("-")[0]
    if not name.startswith(_scratch_prefix()) or not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False
