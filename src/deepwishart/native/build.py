"""``kernels.cpp`` to a library, compiled once for this machine and kept in the user's cache.

Whoever can write to the cache can have this process run code. The folder and the library are
therefore used only if they belong to this user and nobody else can write to them. A library's name
ends in its checksum, since loading a truncated one kills the process: it is whole or not there,
also when two processes put it there at once.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

from deepwishart._support.files import sync_directory

_HERE = Path(__file__).parent
_SOURCES = (_HERE / "kernels.cpp", *sorted(_HERE.glob("*.h")))
_OPTIONS = ["-std=c++20", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-fPIC"]
_OPTIONS += ["-shared"]
# Another one serves to compute as other processors would (make portable).
_ARCHITECTURE = os.environ.get("DEEPWISHART_ARCHITECTURE", "native")
_TIMEOUT_SECONDS = 300
_log = logging.getLogger("deepwishart")


class NativeUnavailable(RuntimeError):
    """The native library is turned off or cannot be had here."""


class CacheRefused(NativeUnavailable):
    """Others can write to the cache."""


def find_or_compile() -> Path:
    """The library in the cache, compiled now if there is no intact one."""
    if os.name != "posix":
        raise NativeUnavailable("native code is compiled on Linux and macOS only")
    try:
        folder = _open_folder()
        name = f"kernels-{_fingerprint()}"
        for library in intact(folder, name):
            _refuse_if_shared(library)
            return library
        _announce(
            "deepwishart: compiling native code once for this machine, about half a minute "
            "(DEEPWISHART_NATIVE=0 does without)"
        )
        return compile_kernels(folder, name, architecture=_ARCHITECTURE)
    except OSError as error:
        raise NativeUnavailable(f"the cache of native code cannot be used: {error}") from error


def compile_kernels(folder: Path, name: str, *, architecture: str | None) -> Path:
    """Compile the operations for this ``-march``, for the compiler's default if ``None``, to a
    library in this folder that :func:`intact` finds by this name."""
    with tempfile.TemporaryDirectory(prefix="tmp-", dir=folder) as scratch:
        fresh = Path(scratch) / "kernels.so"
        _run_compiler(fresh, architecture)
        fresh.chmod(0o644)
        with open(fresh, "rb") as file:
            os.fsync(file.fileno())
        kept = folder / f"{name}-{_checksum(fresh)}.so"
        os.replace(fresh, kept)
    sync_directory(folder)  # safe from a loss of power
    return kept


def intact(folder: Path, name: str) -> Iterator[Path]:
    """The libraries of this name that are what they were when they were compiled.

    >>> list(intact(Path("nowhere"), "kernels"))
    []
    """
    for path in sorted(folder.glob(f"{name}-*.so")):
        if path.name == f"{name}-{_checksum(path)}.so":
            yield path


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run_compiler(output: Path, architecture: str | None) -> None:
    compiler = _compiler()
    target = [] if architecture is None else [f"-march={architecture}"]
    command = [*compiler, *_OPTIONS, *target, str(_SOURCES[0]), "-o", str(output), *_torch_flags()]
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
    found = shutil.which("g++") or shutil.which("clang++")
    if not named and found is None:
        raise NativeUnavailable("no C++ compiler was found (install g++ for faster training)")
    return named or [str(found)]


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
        f"-ffile-prefix-map={_HERE}=deepwishart/native",
        "-ltorch_cpu",
        "-lc10",
    ]


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
    for source in _SOURCES:
        digest.update(source.read_bytes())
    machine = [torch.__version__, platform.machine(), *sorted(processor())]
    digest.update("\n".join([*_OPTIONS, _ARCHITECTURE, *machine]).encode())
    return digest.hexdigest()[:16]


@functools.cache
def processor() -> frozenset[str]:
    """The kernel's names of what this processor can do; none where it does not list them.

    >>> all(isinstance(name, str) for name in processor())
    True
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    line = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(line.partition(":")[2].split())
