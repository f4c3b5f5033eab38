"""Whatever is in a results directory, there is a report, and a sentence on what is not in it."""

from dataclasses import replace

import pytest

from deepwishart.reproduction.report import read_results
from deepwishart.reproduction.report.comparisons import other_table
from deepwishart.reproduction.sweeps import ResultsStore, RunSpec
from deepwishart.reproduction.sweeps.store import ResultsError


def test_by_split_averages_seeds(add_runs):
    directory = add_runs(
        *((RunSpec("yacht", 0, "dwp", 2, seed), {"elbo": float(seed)}) for seed in (1, 2)),
        (RunSpec("yacht", 4, "dwp", 2), {"elbo": 7.0}),
        (RunSpec("yacht", 4, "dwp", 3), {"elbo": 8.0}),
    )
    results = read_results(directory)
    assert results.by_split("elbo", "paper", "yacht", "dwp", 2) == {0: 1.5, 4: 7.0}
    assert results.by_split("rmse", "paper", "yacht", "dwp", 2) == {}


def test_what_cannot_be_used_is_left_out_and_said(make_results):
    directory = make_results()
    store, spec = ResultsStore(directory), RunSpec("boston", 9, "dwp", 2)
    with store.writing():
        record = {**spec.to_dict(), "status": "failed", "reason": "TrainingError: <NaN>\nat 5"}
        store.add(record, {"step": []})
    path = directory / "runs.jsonl"
    lines = path.read_bytes().splitlines()
    bad = [b'{"dataset": "bos', b"\xff\xfe", b"[1, 2]", b"3", b'{"dataset": "boston"}']
    path.write_bytes(b"\n".join([*bad[:3], *lines, *bad[3:]]))
    results = read_results(directory)
    assert len(results.runs) == len(lines) - 1
    assert 9 not in results.by_split("elbo", "paper", "boston", "dwp", 2)
    places = ", ".join(map(str, [1, 2, 3, len(lines) + 4, len(lines) + 5]))
    unread, failed = results.notes
    assert unread.startswith("5 lines of runs.jsonl could not be read") and f": {places}." in unread
    assert failed.startswith("1 run failed, left out of all means")
    assert "boston split 9 dwp depth 2 (TrainingError: <NaN>" in failed


def test_protocols_are_kept_apart(add_runs):
    slow = RunSpec("boston", 0, "dwp", 2)
    fast, converged = (replace(slow, protocol=name) for name in ("fast", "converged"))
    assert [run.spec for run in read_results(add_runs((fast, {"elbo": 0.0}))).runs] == [fast]
    results = read_results(add_runs((slow, {"elbo": 1.0}), (converged, {"elbo": 2.0})))
    assert results.protocols == ("paper", "converged")
    assert {run.spec for run in results.runs} == {slow, converged}
    assert results.by_split("elbo", "converged", "boston", "dwp", 2) == {0: 2.0}
    assert results.notes == ("Beside the paper's, runs of other protocols are left out: fast.",)


def made_with(seed: int = 0, split: int = 0, process: str = "dwp", **settings: object):
    """A run with settings of its own, and a version of them that says so."""
    recorded = {"model": {"output": "collapsed", **settings}}
    version = "-".join(map(str, settings.values()))
    return RunSpec("boston", split, process, 2, seed, "paper", version), {
        "settings": recorded,
        "elbo": 1.0,
    }


def test_processes_are_compared_with_settings_that_both_have(add_runs):
    directory = add_runs(
        *(made_with(split=split, process=p) for split in (0, 1) for p in ("dwp", "dgp")),
        *(made_with(split=split, process="dgp", num_inducing=50) for split in (0, 1, 2)),
    )
    results = read_results(directory)
    assert len(results.by_split("elbo", "paper", "boston", "dgp", 2)) == 3
    assert results.pair("elbo", "paper", "boston", 2) == ({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0})
    assert results.pair("elbo", "paper", "boston", 3) == ({}, {})


def test_runs_of_different_settings_are_never_averaged(add_runs):
    directory = add_runs(
        *(made_with(split=split) for split in (0, 1)),
        *(made_with(split=split, num_inducing=50) for split in (0, 1, 2)),
        made_with(split=3, dtype="float32"),
    )
    results = read_results(directory)
    assert {run.settings["num_inducing"] for run in results.runs} == {50}
    assert results.by_split("elbo", "paper", "boston", "dwp", 2) == {0: 1.0, 1: 1.0, 2: 1.0}
    assert sorted(len(group) for group in results.others) == [1, 2]
    table = other_table(results)
    assert table.texts[0].startswith("Runs of different settings are never averaged.")
    assert [row[4].text for row in table.rows] == [
        "num_inducing 100 (there 50)",
        "num_inducing 100 (there 50), dtype float32 (there float64)",
    ]


@pytest.mark.parametrize(
    ("inducing", "days", "shown"),
    [((10, 20, 30), ("02", "03", "01"), 20), ((100, 200), ("01", "02"), 100)],
)
def test_of_as_many_splits_the_usual_and_the_newest_count(add_runs, inducing, days, shown):
    runs = [made_with(num_inducing=n) for n in inducing]
    finished = ((s, {**r, "finished_at": day}) for (s, r), day in zip(runs, days, strict=True))
    results = read_results(add_runs(*finished))
    assert [run.settings["num_inducing"] for run in results.runs] == [shown]


def test_threads_are_not_settings(add_runs):
    """One thread more changes no result, and what is not in a line has its default value."""
    (one, numbers), (other, more) = made_with(split=0), made_with(split=1)
    more["settings"] |= {"threads": 2, "device": "cuda", "start": "inputs"}
    more["settings"]["model"] |= {"ard": True}
    results = read_results(add_runs((one, numbers), (other, more)))
    assert len(results.runs) == 2 and results.others == []


def test_other_posteriors_are_kept_out_of_the_tables(add_runs):
    directory = add_runs(made_with(), made_with(posterior="rows"))
    results = read_results(directory)
    assert [run.settings["posterior"] for run in results.runs] == ["bartlett"]
    assert sorted(run.settings["posterior"] for run in results.every) == ["bartlett", "rows"]
    assert results.notes == () and results.others == []


def test_a_curve_that_is_missing_or_empty(make_results):
    directory = make_results(num_splits=1, datasets=("boston",))
    results = read_results(directory)
    shallow, deep = (next(r for r in results.runs if r.spec.depth == depth) for depth in (2, 5))
    assert len(results.curve(deep)["step"]) == 400 and results.curve(shallow) is None
    (directory / "curves" / f"{deep.spec.key}.json").unlink()
    assert results.curve(deep) is None


@pytest.mark.parametrize("content", ["{", "[]", '{"step": ["a"], "elbo": [1], "seconds": [1]}'])
def test_a_curve_that_is_none(make_results, content):
    directory = make_results(num_splits=1, datasets=("boston",), depths=(5,))
    results = read_results(directory)
    run = results.runs[0]
    (directory / "curves" / f"{run.spec.key}.json").write_text(content)
    with pytest.raises(ResultsError, match="is no training curve"):
        results.curve(run)
