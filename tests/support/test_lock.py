"""Directories that one process has at a time."""

import os
import subprocess
import sys
from pathlib import Path

from deepwishart._support.lock import LOCK, locked

SOURCE = Path(__file__).resolve().parents[2] / "src"


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path):
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from deepwishart._support.lock import locked\n"
        "with locked(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], env={"PYTHONPATH": str(SOURCE)})
    assert (tmp_path / LOCK).exists()
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text() == str(os.getpid())
