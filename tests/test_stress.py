"""A small fixed sample of what ``make stress`` tries, and that it notices what it is there for."""

import random
import signal
from pathlib import Path

import pytest

from stress import pool
from stress.cases import Failed, seeded
from stress.command import Ended, check_predictions, judge
from stress.pool import answers

SAMPLES = {"tables": range(12), "models": range(20), "calls": range(40), "kills": (4, 9)}


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_sample(kind, tmp_path):
    ends = dict(answers(kind, 5, tmp_path, SAMPLES[kind], seconds=float("inf")))
    assert {number: end for number, end in ends.items() if "failed" in end} == {}
    assert len(ends) == len(SAMPLES[kind])
    if kind == "kills":
        assert sum(end["counts"].get("kills", 0) for end in ends.values()) >= 1


SUITE = """
import os, signal, time
from stress.cases import Failed, Outcome

class SUITE:
    def __init__(self, folder): pass

    def run(self, rng, folder):
        case = rng.choice(["fine", "failed", "error", "segfault", "loop"])
        if case == "failed": raise Failed("lost")
        if case == "error": raise KeyError("odd")
        if case == "segfault": os.kill(os.getpid(), signal.SIGSEGV)
        while case == "loop": pass
        return Outcome(case, "accepted")
"""


def test_what_becomes_of_a_child_is_put_down_to_its_case(tmp_path, monkeypatch):
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "odd.py").write_text(SUITE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(pool, "_CPU_SECONDS", 0.5)
    seen = {}
    for number, answer in answers("suites.odd", 0, tmp_path / "w", range(12), float("inf")):
        rng = seeded("suites.odd", 0, number)
        seen[rng.choice(["fine", "failed", "error", "segfault", "loop"])] = answer
    assert seen["fine"] == {"what": "fine", "ended": "accepted", "counts": {}}
    assert seen["failed"] == {"failed": "lost"}
    assert "KeyError: 'odd'" in seen["error"]["failed"]
    assert seen["segfault"]["failed"].startswith("killed by SIGSEGV")
    assert "s of computing" in seen["loop"]["failed"]


@pytest.mark.parametrize(
    "ended",
    [
        Ended(1, "", "Traceback (most recent call last):\n"),
        Ended(2, "", "thread 'x' panicked at y.rs:3"),
        Ended(2, "", ""),
        Ended(2, "", "deepwishart: \x1b[2J"),
        Ended(2, "", "deepwishart: " + "x" * 5000),
        Ended(-signal.SIGSEGV, "", ""),
        Ended(3, "", "deepwishart: what"),
    ],
)
def test_what_nobody_should_see_is_a_failure(ended):
    with pytest.raises(Failed):
        judge(ended)


def test_refusals_and_results_are_none():
    assert judge(Ended(2, "", "deepwishart: no such file\n")) == "refused"
    assert judge(Ended(0, "mean\n1.0\n", "")) == "accepted"
    check_predictions("class,p\nred,0.5\n", num_rows=1)
    for text, rows in (("mean\nnan\n", 1), ("mean\n-inf\n", None), ("mean\n1.0\n", 2)):
        with pytest.raises(Failed):
            check_predictions(text, rows)


def test_damage_changes_bytes():
    from stress.damage import BYTES

    data = bytes(range(256)) * 4
    for damage in BYTES:
        found = [damage(data, random.Random(seed)) for seed in range(5)]
        assert any(each != data for each in found), damage.__name__


def test_operations_are_counted_and_stopped(tmp_path):
    """A process that writes a file is killed at the operation that the plan says."""
    import subprocess
    import sys

    from stress.faults import Plan, num_operations

    code = (
        "import json, sys; from pathlib import Path; from stress.faults import Plan, install\n"
        "from deepwishart._support.files import write_atomically\n"
        "folder = Path(sys.argv[2]); install(Plan(**json.loads(sys.argv[1])), folder)\n"
        "write_atomically(folder / 'f', b'new!'); (Path(folder.anchor) / 'tmp').exists()"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}

    def run(plan: Plan) -> int:
        (tmp_path / "f").write_bytes(b"old")
        command = [sys.executable, "-c", code, plan.to_json(), str(tmp_path)]
        return subprocess.run(command, env=environment, capture_output=True).returncode

    count = tmp_path.parent / f"{tmp_path.name}-count"
    assert run(Plan(0, count_into=str(count))) == 0
    total = num_operations(count)
    assert total == 5  # open, fsync, replace, unlink of what is not there, fsync of the directory
    assert (tmp_path / "f").read_bytes() == b"new!"
    assert run(Plan(2, "torn")) == -signal.SIGKILL
    assert (tmp_path / "f").read_bytes() == b"old"
    assert (tmp_path / ".f.partial").read_bytes() == b"ne"
    assert run(Plan(3, "after")) == -signal.SIGKILL
    assert (tmp_path / "f").read_bytes() == b"new!"
    assert run(Plan(1, "full disk")) == 1
    assert (tmp_path / "f").read_bytes() == b"old"
    assert isinstance(count, Path)
