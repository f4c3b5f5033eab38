"""Settings for the whole test session."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

# A shell that starts the tests in the background has them ignore Ctrl-C, which some of them test.
signal.signal(signal.SIGINT, signal.default_int_handler)


# pytest-xdist starts one process per core: more threads than that only take turns.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def global_seeds() -> None:
    """A test that forgets its generator fails every time or never."""
    torch.manual_seed(0)
    np.random.seed(0)


RunFresh = Callable[[str, dict[str, str]], subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def run_fresh() -> RunFresh:
    """Run a script in a new process: ``run_fresh(script, environment)``."""
    source = str(Path(__file__).resolve().parents[1] / "src")

    def run(script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        settings = {**environment, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", script]
        return subprocess.run(command, env=settings, capture_output=True, text=True)

    return run


@contextmanager
def plain_paths() -> Iterator[None]:
    """Have every function of numerics use the definitions of its operations, not their kernels."""
    import deepwishart.numerics as numerics

    modules = [m for m in vars(numerics).values() if isinstance(m, ModuleType)]
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            for name, value in vars(module).copy().items():
                if name.startswith("plain_"):
                    patch.setattr(module, name.removeprefix("plain_"), value)
        yield
