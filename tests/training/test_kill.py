"""Kill -9 at any moment loses nothing but the time since the last checkpoint."""

import random
import runpy
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deepwishart.training import CheckpointStore

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("resumable_run.py")
RUN = runpy.run_path(str(SCRIPT))["run"]


def wait_for(condition, process) -> None:
    deadline = time.monotonic() + 300.0
    while not condition():
        assert process.poll() is None, f"the run ended by itself with code {process.returncode}"
        assert time.monotonic() < deadline, "the run makes no progress"
        time.sleep(1e-3)


def test_a_killed_run_ends_like_one_that_was_not(tmp_path, same, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(SCRIPT.parents[2] / "src"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    store, delays = CheckpointStore(tmp_path), random.Random(5)
    reached = [0]
    for _ in range(3):
        with subprocess.Popen([sys.executable, SCRIPT, tmp_path], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
            before = store.paths()
            wait_for(lambda before=before: store.paths() != before, child)
            time.sleep(delays.uniform(0.0, 0.06))
            child.kill()
        assert child.returncode == -9
        latest = store.latest()  # intact, or a warning would fail the test
        assert latest is not None and latest.step >= reached[-1]
        reached.append(latest.step)
    assert 0 < reached[1] < reached[-1] < 150

    model, history = RUN(str(tmp_path))
    whole, expected = RUN(None)
    assert same(model, whole)
    assert history.elbo == pytest.approx(expected.elbo, rel=0, abs=0)
    assert history.step == list(range(150))
