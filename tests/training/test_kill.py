"""Kill -9 at any moment loses nothing but the time since the last checkpoint. This file, run as a
script, trains a small model; the test kills it and starts it again."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import deepwishart as dw
from deepwishart.training import CheckpointStore, History, Protocol, train

pytestmark = pytest.mark.slow

STEPS = 150


def run(directory: str | None) -> tuple[dw.DeepKernelProcess, History]:
    """Train from the newest checkpoint in ``directory``, or in one go without a directory."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(30, 2, generator=generator, dtype=torch.float64)
    model = dw.build("dwp", X, X[:, 0].sin(), depth=2, num_inducing=6)
    protocol = Protocol(STEPS, 1e-2, 1e-3, "cosine", kl_anneal=50, num_samples=2, batch_size=11)
    store = CheckpointStore(directory, every_steps=2) if directory else None
    history = train(model, X, X[:, 0].sin(), protocol, checkpoints=store, resume=bool(directory))
    return model, history


def wait_for(condition, process) -> None:
    deadline = time.monotonic() + 300.0
    while not condition():
        assert process.poll() is None, f"the run ended by itself with code {process.returncode}"
        assert time.monotonic() < deadline, "the run makes no progress"
        time.sleep(1e-3)


def test_a_killed_run_ends_like_one_that_was_not(tmp_path, same, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    store, delays = CheckpointStore(tmp_path), random.Random(5)
    reached = [0]
    for _ in range(3):
        command = [sys.executable, __file__, tmp_path]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
            before = store.paths()
            wait_for(lambda before=before: store.paths() != before, child)
            time.sleep(delays.uniform(0.0, 0.06))
            child.kill()
        assert child.returncode == -9
        latest = store.latest()  # intact, or a warning would fail the test
        assert latest is not None and latest.step >= reached[-1]
        reached.append(latest.step)
    assert 0 < reached[1] < reached[-1] < STEPS

    model, history = run(str(tmp_path))
    whole, expected = run(None)
    assert same(model, whole)
    assert history.elbo == expected.elbo and history.step == list(range(STEPS))


if __name__ == "__main__":
    print("ready", flush=True)
    run(sys.argv[1])
