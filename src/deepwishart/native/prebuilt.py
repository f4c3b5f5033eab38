"""The libraries that a wheel carries: one for each PyTorch and family of processors.

PyTorch's C++ interface changes between minor versions, and the part of it that does not
(``torch/csrc/stable``) has no factorisations. A wheel therefore serves one minor version.
"""

from __future__ import annotations

import logging
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from deepwishart.native.build import compile_kernels, intact, processor

FOLDER = Path(__file__).with_name("prebuilt")
# Names of -march, best first, and what a processor needs to have for them.
_FAMILIES = {
    "x86-64-v3": {"abm", "avx", "avx2", "bmi1", "bmi2", "cx16", "f16c", "fma", "lahf_lm", "movbe"}
    | {"pni", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64": set[str](),
}
_log = logging.getLogger("deepwishart")


def torch_name() -> str:
    """The folder of libraries for this PyTorch.

    >>> torch_name().startswith("torch-2.")
    True
    """
    return "torch-" + ".".join(torch.__version__.split(".")[:2])


def compile_all(folder: Path) -> list[Path]:
    """Compile a library for each family of processors, all at the same time."""
    target = folder / torch_name()
    target.mkdir(parents=True)

    def compile_one(family: str) -> Path:
        architecture = family if family in _FAMILIES else None
        return compile_kernels(target, family, architecture=architecture)

    with ThreadPoolExecutor() as pool:
        return list(pool.map(compile_one, _families()))


def find(folder: Path = FOLDER) -> Path | None:
    """The wheel's library for this PyTorch and this processor, if there is one."""
    if not folder.is_dir():
        return None
    target = folder / torch_name()
    if not target.is_dir():
        carried = ", ".join(sorted(path.name for path in folder.iterdir()))
        _log.warning(
            "deepwishart: this wheel carries native code for %s, not for %s (install the wheel for "
            "your PyTorch)",
            carried,
            torch_name(),
        )
        return None
    for family, needed in _families().items():
        if needed <= processor():
            for library in intact(target, family):
                return library
    _log.warning("deepwishart: the native code in %s is damaged (install the wheel again)", target)
    return None


def _families() -> dict[str, set[str]]:
    return _FAMILIES if platform.machine() == "x86_64" else {platform.machine(): set()}
