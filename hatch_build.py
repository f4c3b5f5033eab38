"""Puts the compiled operations into the wheel, if ``DEEPWISHART_BUILD_NATIVE=1`` asks for them.

They are compiled against the PyTorch of the environment that builds, hence without build isolation:
``make wheel``.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeWheel(BuildHookInterface):
    """A wheel for one platform and one minor version of PyTorch."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if os.environ.get("DEEPWISHART_BUILD_NATIVE", "0") == "0" or version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "src"))
        try:
            from deepwishart.native import prebuilt
        except ModuleNotFoundError as error:
            raise RuntimeError(
                f"{error.name} is needed to compile the operations: run 'make wheel', or install "
                "it and build with --no-build-isolation."
            ) from error
        self._scratch = tempfile.TemporaryDirectory()
        for library in prebuilt.compile_all(Path(self._scratch.name)):
            inside = f"deepwishart/native/prebuilt/{library.parent.name}/{library.name}"
            build_data["force_include"][str(library)] = inside
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"  # nothing in it depends on Python's version

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        scratch = getattr(self, "_scratch", None)
        if scratch is not None:
            scratch.cleanup()
