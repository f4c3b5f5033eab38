"""Whatever is in a results directory, there is a report, and a sentence on what is not in it."""

import json

import pytest

from deepwishart.reproduction.report import read_results
from deepwishart.reproduction.sweeps import ResultsError, ResultsStore, RunSpec


def runs_file(directory):
    return directory / "runs.jsonl"


def test_all_is_well(make_results):
    results = read_results(make_results())
    assert len(results.runs) == 2 * 2 * 2 * 5
    assert (results.failed, results.notes, results.protocol) == ((), (), "paper")


def test_by_split_averages_seeds(add_runs):
    directory = add_runs(
        *((RunSpec("yacht", 0, "dwp", 2, seed), {"elbo": float(seed)}) for seed in (1, 2)),
        (RunSpec("yacht", 4, "dwp", 2), {"elbo": 7.0}),
        (RunSpec("yacht", 4, "dwp", 3), {"elbo": 8.0}),
    )
    results = read_results(directory)
    assert results.by_split("elbo", "yacht", "dwp", 2) == {0: 1.5, 4: 7.0}
    assert results.by_split("rmse", "yacht", "dwp", 2) == {}


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(ResultsError, match=r"There is no directory .*nowhere.*uci run"):
        read_results(tmp_path / "nowhere")


@pytest.mark.parametrize("content", [None, b""])
def test_no_lines(tmp_path, content):
    if content is not None:
        runs_file(tmp_path).write_bytes(content)
    results = read_results(tmp_path)
    assert results.runs == ()
    assert [note for note in results.notes if "no finished runs" in note] == list(results.notes)


def test_torn_and_foreign_lines(make_results):
    directory = make_results()
    lines = runs_file(directory).read_bytes().splitlines()
    whole = json.loads(lines[0])
    bad = [
        b'{"dataset": "bos',
        b"\xff\xfe",
        b"[1, 2]",
        b"3",
        b'{"dataset": "boston"}',
        json.dumps({**whole, "depth": "2"}).encode(),
        json.dumps({**whole, "dataset": 7}).encode(),
        json.dumps({**whole, "split": [0]}).encode(),
    ]
    runs_file(directory).write_bytes(b"\n".join([*bad[:3], *lines, *bad[3:]]))
    results = read_results(directory)
    assert len(results.runs) == len(lines)
    places = ", ".join(map(str, [1, 2, 3, *range(len(lines) + 4, len(lines) + 9)]))
    assert results.notes == (
        "8 lines of runs.jsonl could not be read as the record of a run and were left out: "
        f"{places}.",
    )


def test_failed_runs(make_results):
    directory = make_results()
    store = ResultsStore(directory)
    spec = RunSpec("boston", 9, "dwp", 2)
    with store.writing():
        record = {**spec.to_dict(), "status": "failed", "reason": "TrainingError: <NaN>\nat 5"}
        store.add(record, {"step": []})
    results = read_results(directory)
    assert [run.spec for run in results.failed] == [spec]
    assert 9 not in results.by_split("elbo", "boston", "dwp", 2)
    assert results.notes[0].startswith("1 run failed and was left out of all means")
    assert "boston split 9 dwp depth 2 (TrainingError: <NaN>" in results.notes[0]


def test_only_failed_runs(add_runs):
    directory = add_runs((RunSpec("boston", 0, "dwp", 2), {"status": "failed"}))
    notes = read_results(directory).notes
    assert len(notes) == 2 and "no reason given" in notes[1]


def test_numbers_that_are_none(add_runs):
    directory = add_runs(
        (RunSpec("boston", 0, "dwp", 2), {"elbo": None}),
        (RunSpec("boston", 1, "dwp", 2), {"elbo": "1"}),
        (RunSpec("boston", 2, "dwp", 2), {"elbo": True}),
    )
    with open(runs_file(directory), "a") as file:  # Python reads NaN, though the store writes none
        record = {**RunSpec("boston", 3, "dwp", 2).to_dict(), "status": "ok", "elbo": float("nan")}
        file.write(json.dumps(record) + "\n")
    results = read_results(directory)
    assert len(results.runs) == 4
    assert results.by_split("elbo", "boston", "dwp", 2) == {}


def test_protocols_are_kept_apart(add_runs):
    fast = RunSpec("boston", 0, "dwp", 2, 0, "fast")
    slow = RunSpec("boston", 0, "dwp", 2)
    directory = add_runs((fast, {"elbo": 1.0}), (slow, {"elbo": 2.0}))
    results = read_results(directory)
    assert [run.spec for run in results.runs] == [slow]
    assert results.notes == ("1 run with another training protocol (fast) was left out.",)
    assert [run.spec for run in read_results(directory, protocol="fast").runs] == [fast]
    with pytest.raises(ResultsError, match=r"'slow'; there are some with fast, paper"):
        read_results(directory, protocol="slow")


def test_a_sweep_without_the_papers_protocol(add_runs):
    directory = add_runs((RunSpec("boston", 0, "dwp", 2, 0, "fast"), {"elbo": 1.0}))
    assert read_results(directory).protocol == "fast"


def test_the_last_record_of_a_run_counts(add_runs):
    spec = RunSpec("boston", 0, "dwp", 2)
    results = read_results(add_runs((spec, {"elbo": 1.0}), (spec, {"elbo": 2.0})))
    assert [run.value("elbo") for run in results.runs] == [2.0]


def test_settings_show_every_value(add_runs):
    directory = add_runs(
        (RunSpec("boston", 0, "dwp", 2), {"settings": {"dtype": "float64"}}),
        (RunSpec("boston", 1, "dwp", 2), {"settings": {"dtype": "float32"}}),
        (RunSpec("boston", 2, "dwp", 2), {"settings": "none", "versions": None}),
    )
    assert read_results(directory).settings()["dtype"] == "float32, float64"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"step": [1]}', '{"step": [1], "elbo": [], "seconds": []}']
)
def test_damaged_curves(make_results, content):
    directory = make_results(num_splits=1, datasets=("boston",))
    results = read_results(directory)
    run = next(run for run in results.runs if run.spec.depth == 5)
    assert len(results.curve(run)["step"]) == 400
    (directory / "curves" / f"{run.spec.key}.json").write_text(content)
    assert results.curve(run) is None
