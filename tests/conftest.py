"""Settings for the whole test session."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
import torch

# A shell that starts the tests in the background has them ignore Ctrl-C, which some of them test.
signal.signal(signal.SIGINT, signal.default_int_handler)


# pytest-xdist starts one process per core: more threads than that only take turns.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)


# A process that has imported PyTorch, which takes seconds, and nothing of deepwishart. It forks for
# every script that it is sent.
_NURSERY = """
import json, os, sys, traceback
import torch

for line in sys.stdin:
    script, environment, streams = json.loads(line)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.environ.clear()
            os.environ.update(environment)
            for number, path in enumerate(streams, start=1):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
            exec(script, {"__name__": "__main__"})
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
RunFresh = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def run_fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFresh]:
    """Run a script in a process that has not imported deepwishart yet: ``run_fresh(script,
    environment)``. Cheaper than an interpreter of its own, since PyTorch is there already."""
    source = str(Path(__file__).resolve().parents[1] / "src")
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    folder = tmp_path_factory.mktemp("fresh")
    nursery = subprocess.Popen(
        [sys.executable, "-c", _NURSERY],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert nursery.stdin is not None and nursery.stdout is not None

    def run(script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        streams = [folder / "out", folder / "err"]
        for path in streams:
            path.unlink(missing_ok=True)
        print(json.dumps([script, environment, [str(p) for p in streams]]), file=nursery.stdin)
        nursery.stdin.flush()
        code = int(nursery.stdout.readline())
        return subprocess.CompletedProcess("script", code, *(path.read_text() for path in streams))

    with nursery:
        yield run
        nursery.stdin.close()


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
