"""Worker processes come and go; runs do not get lost."""

import importlib
from collections import Counter

import pytest

from deepwishart.reproduction.sweeps import (
    Execution,
    LocalEngine,
    ResultsStore,
    RunSpec,
    Settings,
    local,
    run_sweep,
)

pytestmark = pytest.mark.slow

SPECS = [RunSpec("yacht", split, "dwp", 2, protocol="fast") for split in range(4)]

# A stand-in for a run, with no model to train: what it does depends on the split.
STAND_IN = """
import os, signal, time
from deepwishart.reproduction.sweeps.engine import Event

def carry_out(spec, settings, dataset, folder, execution):
    first = not (folder / "tried").exists()
    (folder / "tried").touch()
    if spec.split == 1 and first:
        os.kill(os.getpid(), signal.SIGKILL)
    if spec.split == 2:
        os._exit(7)
    if spec.split == 3:
        return Event(spec, reason="OSError: disk")
    if spec.split == 4:
        time.sleep(10**6)
    record = {**spec.to_dict(), "status": "ok", "threads": os.environ["OMP_NUM_THREADS"]}
    return Event(spec, record, {})
"""


@pytest.fixture
def store(tmp_path) -> ResultsStore:
    return ResultsStore(tmp_path / "results")


@pytest.fixture
def make_engine(store, tmp_path, monkeypatch):
    """An engine whose workers do what the stand-in does."""
    (tmp_path / "stand_in_run.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(local, "carry_out", importlib.import_module("stand_in_run").carry_out)
    return lambda **options: LocalEngine(Settings(), store, {"yacht": None}, **options)


@pytest.mark.parametrize("num_workers", [1, 9])
def test_every_run_ends_once_however_its_worker_does(make_engine, store, num_workers):
    engine, events = make_engine(num_workers=num_workers, execution=Execution(threads=3)), []
    with store.writing():
        broken = {
            spec.split: r for spec, r in run_sweep(SPECS, store, engine, events.append).items()
        }
    assert sorted(event.spec for event in events if not event.again) == SPECS
    assert sorted(store.records()) == SPECS[:2]
    assert store.records()[SPECS[0]]["threads"] == "3"
    assert "EXIT(7)" in broken[2] and "(3 times in all)" in broken[2]
    assert broken[3] == "OSError: disk" and len(broken) == 2
    lost = [event for event in events if event.again]
    assert Counter(event.spec.split for event in lost) == {1: 1, 2: 2}
    assert any("SIGKILL" in event.reason for event in lost)
