"""Runs that are killed or interrupted."""

import json
import signal
import time
from pathlib import Path

import pytest

from deepwishart.training import Checkpoint, History

from .conftest import start

pytestmark = pytest.mark.slow

SMALL = ["--depth", "2", "--inducing", "5", "--samples", "1", "--quiet"]


def wait_for_checkpoint(process, out: Path) -> Path:
    """The checkpoint of a running fit, as soon as there is one."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        found = list(out.glob("checkpoints/*/step-*.safetensors"))
        if found:
            return found[0]
        time.sleep(0.01)
    raise AssertionError(process.communicate())


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "train.csv"
    path.write_text("x,y\n" + "".join(f"{i},{(i * i) % 11}\n" for i in range(20)))
    return path


def test_resume_after_kill_gives_the_model_of_an_undisturbed_run(data, tmp_path):
    command = ["fit", data, "--target", "y", "--max-iter", "600", "--all-steps", *SMALL]
    out, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    process = start(*command, "--out", out)
    checkpoint = wait_for_checkpoint(process, out)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert json.loads((out / "run.json").read_text())["status"] == "running"
    before = History.from_dict(Checkpoint.read(checkpoint).info["history"])

    runs = [start(*command, "--out", out, "--resume"), start(*command, "--out", undisturbed)]
    for process in runs:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert sorted(entry.name for entry in out.iterdir()) == ["regressor", "run.json"]
    tensors = [folder / "regressor" / "model.safetensors" for folder in (out, undisturbed)]
    assert tensors[0].read_bytes() == tensors[1].read_bytes()
    # The clock readings of the killed run show that its steps were not taken again.
    history = json.loads((out / "regressor" / "history.json").read_text())
    assert len(history["seconds"]) == 600
    assert history["seconds"][: len(before)] == before.seconds
