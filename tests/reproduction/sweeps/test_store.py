"""A results directory keeps every finished run, whatever happens to the process that writes it."""

import json

import pytest

from deepwishart.reproduction.sweeps import ResultsError, ResultsStore, RunSpec, pending

SPECS = [RunSpec("yacht", split, "dwp", 2) for split in range(4)]
CURVE = {"step": [0], "elbo": [-1.5], "seconds": [0.1]}


def record(spec: RunSpec, status: str = "ok") -> dict:
    return {**spec.to_dict(), "status": status, "elbo": 1.25, "reason": "ümlaut\nline"}


@pytest.fixture
def store(tmp_path) -> ResultsStore:
    return ResultsStore(tmp_path / "results")


def fill(store: ResultsStore, specs: list[RunSpec]) -> None:
    with store.writing():
        for spec in specs:
            store.add(record(spec), CURVE)


def test_what_goes_in_comes_out(store):
    assert store.records() == {} and pending(SPECS, store) == SPECS
    assert not store.directory.exists()
    fill(store, SPECS)
    assert store.records() == {spec: record(spec) for spec in SPECS}
    assert store.curve(SPECS[2]) == CURVE
    assert len((store.directory / "runs.jsonl").read_text().splitlines()) == 4


def test_a_last_line_torn_anywhere_is_cut_off_and_its_run_done_again(store):
    fill(store, SPECS)
    path = store.directory / "runs.jsonl"
    content = path.read_bytes()
    start = content.rindex(b"\n", 0, -1) + 1
    zeros = content[:start] + bytes(50)  # which some file systems leave behind after a power cut
    for torn in (zeros, *(content[:length] for length in range(start, len(content), 7))):
        path.write_bytes(torn)
        assert pending(SPECS, store) == SPECS[3:]
        with store.writing():
            assert path.read_bytes() == content[:start]
            store.add(record(SPECS[3]), CURVE)
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    "line",
    [
        '{"dataset": "yacht"}',
        "[" * 9999,
        json.dumps({**record(SPECS[0]), "split": "0"}),
        json.dumps({**record(SPECS[0]), "dataset": "../../other"}),
        json.dumps({**record(SPECS[0]), "settings": {"protocol": "x"}}),
        json.dumps({**record(SPECS[0]), "elbo": float("nan")}),
        json.dumps({**record(SPECS[0]), "status": "failed", "reason": 3}),
    ],
)
def test_a_bad_line_in_the_middle_is_named(store, line):
    fill(store, SPECS)
    path = store.directory / "runs.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], f"{line}\n", *lines[1:]]))
    with pytest.raises(ResultsError, match=r"Line 2 of .*runs\.jsonl.*Delete the line"):
        store.records()


def test_checkpoints_go_when_the_record_is_there(store):
    for spec in SPECS:
        store.checkpoint_dir(spec).mkdir(parents=True)
    fill(store, SPECS[:2])
    assert [store.checkpoint_dir(spec).exists() for spec in SPECS] == [False, False, True, True]
    # Killed between record and deletion: the next sweep tidies up.
    store.checkpoint_dir(SPECS[0]).mkdir()
    fill(store, [])
    assert not store.checkpoint_dir(SPECS[0]).exists()


def test_failed_runs_are_done_again_only_when_asked_for(store):
    with store.writing():
        store.add(record(SPECS[0]), CURVE)
        store.add(record(SPECS[1], "failed"), CURVE)
        assert pending(SPECS, store) == SPECS[2:]
        assert pending(SPECS, store, retry_failed=True) == SPECS[1:]
        store.add(record(SPECS[1]), CURVE)
    assert pending(SPECS, store, retry_failed=True) == SPECS[2:]
    assert store.records()[SPECS[1]]["status"] == "ok"
