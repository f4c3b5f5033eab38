"""Worker processes come and go; runs do not get lost."""

import importlib
import itertools
import os
import signal
from collections import Counter

import pytest

from deepwishart.reproduction.sweeps import (
    Execution,
    LocalEngine,
    ResultsStore,
    RunSpec,
    Settings,
    engine,
    run_sweep,
)
from deepwishart.reproduction.sweeps.engine import Broken, Finished, Lost, Started, Stepped

pytestmark = pytest.mark.slow

SPECS = [RunSpec("yacht", split, "dwp", 2, protocol="fast") for split in range(4)]
SETTINGS = Settings({"num_inducing": 6}, max_iter=60, elbo_samples=20, test_samples=5)

# A stand-in for a run, with no model to train: what it does depends on the split.
STAND_IN = """
import os, signal
from deepwishart.reproduction.sweeps.engine import Broken, Finished, Started

def carry_out(spec, settings, dataset, folder, execution, where, post):
    post(Started(spec, where))
    first = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    if spec.split == 1 and first:
        os.kill(os.getpid(), signal.SIGKILL)
    if spec.split == 2:
        os._exit(7)
    if spec.split == 3:
        return Broken(spec, "OSError: disk")
    record = {**spec.to_dict(), "status": "ok", "threads": os.environ["OMP_NUM_THREADS"]}
    return Finished(spec, record, {})
"""


@pytest.fixture
def store(tmp_path) -> ResultsStore:
    return ResultsStore(tmp_path / "results")


@pytest.fixture
def _stand_in(tmp_path, data_folder, monkeypatch):
    (tmp_path / "stand_in_run.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DEEPWISHART_DATA", str(data_folder))
    monkeypatch.setattr(engine, "carry_out", importlib.import_module("stand_in_run").carry_out)


@pytest.mark.usefixtures("_stand_in")
@pytest.mark.parametrize("num_workers", [1, 9])
def test_every_run_ends_once_however_its_worker_does(store, num_workers):
    local = LocalEngine(SETTINGS, store, num_workers=num_workers, execution=Execution(threads=3))
    events = list(local.run(SPECS))
    ends = [event for event in events if isinstance(event, Finished | Broken)]
    assert sorted(event.spec for event in ends) == SPECS
    finished = {event.spec.split: event for event in ends if isinstance(event, Finished)}
    assert set(finished) == {0, 1}
    assert finished[0].record["threads"] == "3"
    broken = {event.spec.split: event.reason for event in ends if isinstance(event, Broken)}
    assert "EXIT(7)" in broken[2] and "(3 times in all)" in broken[2]
    assert broken[3] == "OSError: disk"
    lost = Counter(event.spec.split for event in events if isinstance(event, Lost))
    assert lost == {1: 1, 2: 2}
    assert any("SIGKILL" in event.reason for event in events if isinstance(event, Lost))


@pytest.mark.usefixtures("_stand_in")
def test_a_sweep_goes_on_past_runs_that_break(store):
    seen = []
    with store.writing():
        local = LocalEngine(SETTINGS, store, num_workers=2)
        outcome = run_sweep(SPECS, store, local, seen.append)
    assert sorted(store.records()) == sorted(outcome.ok) == SPECS[:2]
    assert set(outcome.broken) == set(SPECS[2:]) and not outcome.failed and not outcome.success
    # What is recorded is not done again.
    with store.writing():
        outcome = run_sweep(SPECS[:2], store, LocalEngine(SETTINGS, store), seen.append)
    assert outcome.success and len(store.records()) == 2


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pid_of(event: Started) -> int:
    return int(event.where.rpartition(" ")[2])


def test_a_killed_worker_costs_nothing_but_time(store, dataset):
    """Real workers: one is killed in the middle of its run, which then resumes."""
    settings = Settings({"num_inducing": 6}, max_iter=1200, elbo_samples=20, test_samples=5)
    often = Execution(checkpoint_every=20)
    seen, killed = [], []

    def kill_once(event):
        seen.append(event)
        if isinstance(event, Stepped) and event.step >= 40 and not killed:
            started = [e for e in seen if isinstance(e, Started) and e.spec == event.spec]
            killed.append(event.spec)
            os.kill(pid_of(started[-1]), signal.SIGKILL)

    with store.writing():
        local = LocalEngine(settings, store, num_workers=2, execution=often)
        outcome = run_sweep(SPECS[:2], store, local, kill_once)
    assert outcome.success and sorted(outcome.ok) == SPECS[:2] and len(killed) == 1
    assert [event.spec for event in seen if isinstance(event, Lost)] == killed
    assert all(record["steps"] == 1200 for record in store.records().values())
    curve = store.curve(killed[0])
    assert curve["step"][-1] == 1199 and curve["seconds"] == sorted(curve["seconds"])
    lost = next(n for n, event in enumerate(seen) if isinstance(event, Lost))
    after = [e.step for e in seen[lost:] if isinstance(e, Stepped) and e.spec == killed[0]]
    assert not after or after[0] > 20  # the checkpoint of step 40 may not have been written
    assert not any(alive(pid_of(event)) for event in seen if isinstance(event, Started))
    assert not store.checkpoint_dir(killed[0]).exists()


def test_a_run_without_data_is_broken(store, tmp_path, monkeypatch):
    monkeypatch.setenv("DEEPWISHART_DATA", str(tmp_path))
    (event,) = LocalEngine(SETTINGS, store).run(SPECS[:1])
    assert isinstance(event, Broken) and event.reason.startswith("DataFileError: The data file")


def test_closing_the_engine_ends_its_workers(store, dataset):
    endless = Settings({"num_inducing": 6}, max_iter=10**6)
    events = LocalEngine(endless, store, num_workers=2).run(SPECS[:2])
    started = list(itertools.islice((e for e in events if isinstance(e, Started)), 2))
    assert all(alive(pid_of(event)) for event in started)
    events.close()
    assert not any(alive(pid_of(event)) for event in started)
