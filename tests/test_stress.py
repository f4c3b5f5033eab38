"""A small fixed sample of what ``make stress`` tries, and that it notices what it is there for."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stress.cases import Failed, seeded
from stress.faults import Plan

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}


def python(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, since one that has started threads must not fork."""
    command = [sys.executable, *map(str, words)]
    settings = {**ENVIRONMENT, **environment}
    return subprocess.run(command, env=settings, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("options", "cases"),
    [("--tables 12 --models 20 --calls 40", 72), ("--only kills:4", 1), ("--only kills:9", 1)],
)
def test_a_sample(options: str, cases: int) -> None:
    done = python("-m", "stress", "--seed", "5", *options.split())
    assert done.returncode == 0 and "\nno failures\n" in done.stdout, done.stdout + done.stderr
    tried = re.findall(r"(\d+) (?:accepted|refused|recovered)", done.stdout)
    assert sum(map(int, tried)) == cases


CASES = ["fine", "failed", "error", "segfault", "loop"]
SUITE = f"""
import json, os, signal, sys
from pathlib import Path
from stress import cases

class SUITE:
    def __init__(self, folder): pass
    def prepare(self): pass
    def run(self, rng, folder):
        case = rng.choice({CASES})
        if case == "failed": raise cases.Failed("lost")
        if case == "error": raise KeyError("odd")
        if case == "segfault": os.kill(os.getpid(), signal.SIGSEGV)
        while case == "loop": pass
        return cases.Outcome(case, "accepted")

if __name__ == "__main__":
    cases._CPU_SECONDS = 1
    answers = cases.answers("suites.odd", 0, Path(sys.argv[1]), range(12), float("inf"))
    print(json.dumps(list(answers)))
"""


def test_what_becomes_of_a_case_is_put_down_to_it(tmp_path: Path) -> None:
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "odd.py").write_text(SUITE)
    path = f"{ENVIRONMENT['PYTHONPATH']}:{tmp_path}"
    done = python("-m", "suites.odd", tmp_path / "work", PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    seen = {
        seeded("suites.odd", 0, number).choice(CASES): answer
        for number, answer in json.loads(done.stdout)
    }
    assert seen["fine"] == {"what": "fine", "ended": "accepted", "counts": {}}
    assert seen["failed"] == {"failed": "lost"}
    assert "KeyError: 'odd'" in seen["error"]["failed"]
    assert seen["segfault"]["failed"].startswith("killed by SIGSEGV")
    assert seen["loop"]["failed"].startswith("killed by SIGXCPU")


BAD = [
    (1, "", "Traceback (most recent call last):\n"),
    (2, "", "thread 'x' panicked at y.rs:3"),
    (2, "", ""),
    (2, "", "deepwishart: \x1b[2J"),
    (2, "", "deepwishart: " + "x" * 9000),
    (-signal.SIGSEGV, "", ""),
    (3, "", "deepwishart: what"),
]


def test_what_nobody_should_see_is_a_failure() -> None:
    from stress.command import Ended, check_predictions, judge

    for ended in BAD:
        with pytest.raises(Failed):
            judge(Ended(*ended))
    assert judge(Ended(2, "", "deepwishart: no such file\n")) == "refused"
    assert judge(Ended(0, "mean\n1.0\n", "")) == "accepted"
    check_predictions("class,p\nred,0.5\n", num_rows=1)
    for text, rows in (("mean\nnan\n", 1), ("mean\n-inf\n", None), ("mean\n1.0\n", 2)):
        with pytest.raises(Failed):
            check_predictions(text, rows)


WRITE = """
import sys
from pathlib import Path
from deepwishart._support.files import write_atomically
from stress.faults import Plan, install
folder = Path(sys.argv[1])
install({plan}, folder)
write_atomically(folder / "f", b"new!")
"""


def test_operations_are_counted_and_stopped(tmp_path: Path) -> None:
    """A process that writes a file is killed at the operation that the plan says."""
    file = tmp_path / "f"

    def run(plan: Plan) -> tuple[int, bytes]:
        file.write_bytes(b"old")
        return python("-c", WRITE.format(plan=plan), tmp_path).returncode, file.read_bytes()

    count = tmp_path.parent / f"{tmp_path.name}-count"
    assert run(Plan(0, count_into=str(count))) == (0, b"new!")
    # unlink of what is not there, open, fsync, replace, unlink again, fsync of the directory
    assert count.stat().st_size == 6
    assert run(Plan(3, "torn")) == (-signal.SIGKILL, b"old")
    assert (tmp_path / ".f.partial").read_bytes() == b"ne"
    assert run(Plan(4, "after")) == (-signal.SIGKILL, b"new!")
    assert run(Plan(1, "full disk")) == (1, b"old")
