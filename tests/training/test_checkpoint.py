import os
import pickle

import pytest
import torch

from deepwishart._support.lock import InUseError
from deepwishart.training import (
    Checkpoint,
    CheckpointError,
    CheckpointStore,
    CheckpointWarning,
    train,
)
from deepwishart.training import checkpoint as module


@pytest.fixture
def small() -> Checkpoint:
    tensors = {
        "a": torch.arange(6, dtype=torch.float64).reshape(2, 3) / 7,
        "b": torch.tensor(3, dtype=torch.int64),
        "empty": torch.zeros(0, 6),
        "bytes": torch.arange(40, dtype=torch.uint8),
    }
    return Checkpoint(tensors, {"step": 12, "text": 'a "sha256":"' + "0" * 64 + '"'})


def test_round_trip(small):
    read = Checkpoint.decode(small.encode())
    assert read.info == small.info and read.step == 12
    assert read.tensors.keys() == small.tensors.keys()
    for name, value in small.tensors.items():
        assert torch.equal(read.tensors[name], value) and read.tensors[name].dtype == value.dtype


def test_damage_is_noticed_in_every_byte(small, monkeypatch):
    content = small.encode()
    damaged = [content[:length] for length in range(len(content))]
    for position in range(len(content)):
        for mask in (0x01, 0x20, 0xFF):
            flipped = bytearray(content)
            flipped[position] ^= mask
            damaged.append(bytes(flipped))
    other = (content + b"\0", b"\0" * 100, pickle.dumps({"step": 1}), os.urandom(1_000))
    for each in (*damaged, *other):
        with pytest.raises(CheckpointError, match="damaged"):
            Checkpoint.decode(each)
    monkeypatch.setattr(module, "FORMAT", "deepwishart checkpoint 1")
    content = small.encode()
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="is a deepwishart checkpoint 1, and"):
        Checkpoint.decode(content)


def at_step(small, step: int) -> Checkpoint:
    return Checkpoint(small.tensors, {**small.info, "step": step})


def test_the_newest_are_kept(small, tmp_path):
    store = CheckpointStore(tmp_path / "new" / "directory")
    assert store.latest() is None
    for step in (5, 10, 100):
        store.save(at_step(small, step))
    assert [Checkpoint.read(path).step for path in store.paths()] == [100, 10]
    assert store.latest().step == 100
    store.clear()
    assert store.paths() == []


@pytest.mark.parametrize("damage", [lambda c: c[:50], lambda c: b"", lambda c: c[:-1] + b"!"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(small, tmp_path, damage):
    store = CheckpointStore(tmp_path)
    store.save(at_step(small, 1))
    newest = store.save(at_step(small, 2))
    newest.write_bytes(damage(newest.read_bytes()))
    with pytest.warns(CheckpointWarning, match="step-000000002.*damaged"):
        assert store.latest().step == 1
    store.paths()[1].write_bytes(b"")
    with pytest.warns(), pytest.raises(CheckpointError, match="None of the 2 checkpoints"):
        store.latest()


def test_leftovers_of_later_steps_go_when_the_run_goes_on(small, tmp_path):
    store = CheckpointStore(tmp_path)
    store.save(at_step(small, 8)).write_bytes(b"torn")
    (tmp_path / ".step-000000009.safetensors.partial").write_bytes(b"torn")
    (tmp_path / "notes.txt").write_text("mine")
    store.save(at_step(small, 6))
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["notes.txt", "step-000000006.safetensors"]


def test_content_reaches_the_disk_before_its_name(small, tmp_path, monkeypatch):
    calls = []
    for name, usual in (("fsync", os.fsync), ("replace", os.replace)):
        monkeypatch.setattr(os, name, lambda *a, n=name, f=usual: (calls.append(n), f(*a)))
    CheckpointStore(tmp_path).save(small)
    assert calls == ["fsync", "replace", "fsync"]


# ---- resuming -----------------------------------------------------------------------------------


class Crash(Exception):
    pass


def crash_at(step: int):
    def progress(event):
        if event.step == step:
            raise Crash

    return progress


@pytest.mark.parametrize("process", ["dwp", "diwp", "dsvi"])
@pytest.mark.parametrize("batch_size", [None, 7])
def test_a_resumed_run_is_the_uninterrupted_one(
    data, make_model, protocol, tmp_path, same, process, batch_size
):
    protocol = protocol.replace(batch_size=batch_size, max_iter=20)
    whole = make_model(process)
    expected = train(whole, *data, protocol)
    store = CheckpointStore(tmp_path, every_steps=3)
    options = {"checkpoints": store, "resume": True}
    for step in (1, 4, 4, 13):  # before the first checkpoint, and just after later ones
        with pytest.raises(Crash):
            train(make_model(process), *data, protocol, progress=crash_at(step), **options)
    resumed = make_model(process, seed=9)  # everything comes from the checkpoint
    history = train(resumed, *data, protocol, seed=9, **options)
    assert same(resumed, whole)
    assert history.elbo == expected.elbo and history.step == expected.step
    assert history.seconds == sorted(history.seconds)


def test_a_finished_run_is_not_trained_again_but_may_go_on(
    data, make_model, protocol, tmp_path, same
):
    protocol, store = protocol.replace(max_iter=4, batch_size=7), CheckpointStore(tmp_path)
    model, again = make_model(), make_model()
    train(model, *data, protocol, checkpoints=store)
    history = train(again, *data, protocol, checkpoints=store, resume=True)
    assert same(model, again) and (len(history), history.stopped_by) == (4, "max_iter")
    longer = protocol.replace(max_iter=6, batch_size=20)
    assert len(train(again, *data, longer, checkpoints=store, resume=True)) == 6


def test_another_runs_checkpoints_are_neither_overwritten_nor_used(
    data, make_model, protocol, tmp_path
):
    X, y = data
    protocol, store = protocol.replace(max_iter=2), CheckpointStore(tmp_path)
    train(make_model(), X, y, protocol, checkpoints=store)
    with pytest.raises(ValueError, match="already holds checkpoints"):
        train(make_model(), X, y, protocol, checkpoints=store)
    with pytest.raises(CheckpointError, match="other data"):
        train(make_model(), X, y + 1, protocol, checkpoints=store, resume=True)
    with pytest.raises(CheckpointError, match=r"layers\.2\..* is missing there"):
        train(make_model(depth=4), X, y, protocol, checkpoints=store, resume=True)
    with pytest.raises(CheckpointError, match=r"float64 of shape .* there and float32"):
        Checkpoint.read(store.paths()[0]).load_into(make_model(dtype=torch.float32))
    with pytest.raises(ValueError, match="resume=True needs"):
        train(make_model(), X, y, protocol, resume=True)


def test_one_run_at_a_time_in_a_directory(data, make_model, protocol, tmp_path):
    protocol, store = protocol.replace(max_iter=3), CheckpointStore(tmp_path, every_steps=1)

    def another_run(event):
        with pytest.raises(InUseError, match=f"id {os.getpid()}"):
            train(make_model(), *data, protocol, checkpoints=store, resume=True)

    assert len(train(make_model(), *data, protocol, checkpoints=store, progress=another_run)) == 3
