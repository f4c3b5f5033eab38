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
    run_sweep,
)
from deepwishart.reproduction.sweeps.engines import local
from deepwishart.reproduction.sweeps.engines.events import (
    Broken,
    Finished,
    Lost,
    Started,
    Stepped,
)

pytestmark = pytest.mark.slow

SPECS = [RunSpec("yacht", split, "dwp", 2, protocol="fast") for split in range(4)]
SETTINGS = Settings(num_inducing=6, max_iter=60, elbo_samples=20, test_samples=5)

# A stand-in for a run, with no model to train: what it does depends on the split.
STAND_IN = """
import os, signal, sys
from deepwishart.reproduction.sweeps.engines.events import Finished, Started

def carry_out(spec, settings, dataset, folder, execution, where, post):
    post(Started(spec, where))
    first = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    if spec.split == 1 and first:
        os.write(post.__self__.fileno(), bytes(2))  # half of a message
        os.kill(os.getpid(), signal.SIGKILL)
    if spec.split == 2:
        sys.exit("MemoryError: too deep")
    if spec.split == 3:
        raise OSError("disk")
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
    monkeypatch.setattr(local, "carry_out", importlib.import_module("stand_in_run").carry_out)


@pytest.mark.usefixtures("_stand_in")
@pytest.mark.parametrize("num_workers", [1, 3, 9])
def test_every_run_ends_once_however_its_worker_does(store, num_workers):
    engine = LocalEngine(SETTINGS, store, num_workers=num_workers, execution=Execution(threads=3))
    events = list(engine.run(SPECS))
    ends = [event for event in events if isinstance(event, Finished | Broken)]
    assert sorted(event.spec for event in ends) == SPECS
    finished = {event.spec.split: event for event in ends if isinstance(event, Finished)}
    assert set(finished) == {0, 1}
    assert finished[0].record["threads"] == "3"
    broken = {event.spec.split: event.reason for event in ends if isinstance(event, Broken)}
    assert "exit code 1: MemoryError: too deep (3 times in all)" in broken[2]
    assert broken[3] == "OSError: disk"
    lost = Counter(event.spec.split for event in events if isinstance(event, Lost))
    assert lost == {1: 1, 2: 2}
    assert any("killed by SIGKILL" in event.reason for event in events if isinstance(event, Lost))


@pytest.mark.usefixtures("_stand_in")
def test_a_sweep_goes_on_past_runs_that_break(store):
    seen = []
    with store.writing():
        engine = LocalEngine(SETTINGS, store, num_workers=2)
        tally = run_sweep(SPECS, store, engine, seen.append)
    assert sorted(store.records()) == sorted(tally.ok) == SPECS[:2]
    assert set(tally.broken) == set(SPECS[2:]) and not tally.failed and not tally.success
    # What is recorded is not done again, what is broken is.
    with store.writing():
        again = list(LocalEngine(SETTINGS, store).run([]))
        tally = run_sweep(SPECS[:2], store, LocalEngine(SETTINGS, store), seen.append)
    assert again == [] and tally.success and len(store.records()) == 2


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
    settings = Settings(num_inducing=6, max_iter=1200, elbo_samples=20, test_samples=5)
    often = Execution(checkpoint_every=20)
    seen, killed = [], []

    def kill_once(event):
        seen.append(event)
        if isinstance(event, Stepped) and event.step >= 40 and not killed:
            started = [e for e in seen if isinstance(e, Started) and e.spec == event.spec]
            killed.append(event.spec)
            os.kill(pid_of(started[-1]), signal.SIGKILL)

    with store.writing():
        engine = LocalEngine(settings, store, num_workers=2, execution=often)
        tally = run_sweep(SPECS[:2], store, engine, kill_once)
    assert tally.success and sorted(tally.ok) == SPECS[:2] and len(killed) == 1
    assert [event.spec for event in seen if isinstance(event, Lost)] == killed
    records = store.records()
    assert all(record["steps"] == 1200 for record in records.values())
    curve = store.curve(killed[0])
    assert curve["step"][-1] == 1199 and curve["seconds"] == sorted(curve["seconds"])
    lost = next(n for n, event in enumerate(seen) if isinstance(event, Lost))
    after = [e.step for e in seen[lost:] if isinstance(e, Stepped) and e.spec == killed[0]]
    assert not after or after[0] > 20  # the checkpoint of step 40 may not have been written
    assert not any(alive(pid_of(event)) for event in seen if isinstance(event, Started))
    assert not store.checkpoint_dir(killed[0]).exists()


def test_closing_the_engine_ends_its_workers(store, dataset):
    endless = Settings(num_inducing=6, max_iter=10**6)
    events = LocalEngine(endless, store, num_workers=2).run(SPECS[:2])
    started = list(itertools.islice((e for e in events if isinstance(e, Started)), 2))
    assert all(alive(pid_of(event)) for event in started)
    events.close()
    assert not any(alive(pid_of(event)) for event in started)


def test_workers_are_at_least_one(store):
    with pytest.raises(ValueError, match="at least 1, got 0"):
        LocalEngine(SETTINGS, store, num_workers=0)
