"""The cluster engine, on a real cluster of three nodes on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deepwishart.reproduction.sweeps import RayEngine, ResultsStore, Settings

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("cluster_sweep.py")


def test_a_lost_node_costs_nothing_but_time(tmp_path, data_folder):
    environment = {
        **os.environ,
        "PYTHONPATH": ":".join(sys.path),
        "DEEPWISHART_DATA": str(data_folder),
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_health_check_initial_delay_ms": "500",
        "RAY_health_check_period_ms": "500",
    }
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "out")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("on the cluster; trying again") == 1
    records = ResultsStore(tmp_path / "out").records()
    assert sorted(spec.split for spec in records) == [0, 1, 2]
    assert len((tmp_path / "out" / "runs.jsonl").read_text().splitlines()) == 3
    assert all(r["status"] == "ok" and r["steps"] == 800 for r in records.values())
    assert list((tmp_path / "out" / "checkpoints").iterdir()) == []


def test_without_ray_there_is_advice(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'deepwishart\[ray\]'"):
        RayEngine(Settings(), ResultsStore(tmp_path), {})
