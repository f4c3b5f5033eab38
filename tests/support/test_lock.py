"""Directories that one process has at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deepwishart._support.lock import LOCK, InUseError, locked

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


def test_a_holder_that_has_left_no_name(tmp_path, monkeypatch):
    """It may end between the refusal and the look at who it is."""

    def gone(path, **options):
        raise FileNotFoundError(path)

    with locked(tmp_path):
        monkeypatch.setattr(Path, "read_text", gone)
        with pytest.raises(InUseError, match="id unknown"), locked(tmp_path):
            pass
