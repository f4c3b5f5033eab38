"""``deepwishart uci run``, from the outside."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deepwishart.cli import app
from deepwishart.reproduction import datasets
from deepwishart.reproduction.sweeps import ResultsStore, Settings
from deepwishart.reproduction.sweeps.run import run
from deepwishart.reproduction.sweeps.spec import model_defaults

pytestmark = pytest.mark.slow

QUICK = [
    *("--inducing", "6", "--elbo-samples", "20", "--test-samples", "5", "--protocol", "fast"),
    *("--workers", "2"),
]


@pytest.fixture(autouse=True)
def _data(data_folder, monkeypatch):
    monkeypatch.setenv("DEEPWISHART_DATA", str(data_folder))


def call(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["uci", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def start(*arguments: object) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-m", "deepwishart", "uci", *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_every_field_of_a_model_is_an_option():
    _, out, _ = call("run", "--help")
    for name in model_defaults().keys() - {"likelihood_options"}:  # which no text says
        assert f"--{name.replace('_', '-')}" in out


def test_a_sweep_with_a_failed_run(tmp_path):
    """Split 3 has a test target out of reach: recorded as failed, and the exit code is 1."""
    asked = ["--datasets", "yacht", "--processes", "dwp", "dgp", "--depths", 1, 2]
    asked += ["--splits", "2-3", "--max-iter", 20, "--out", tmp_path / "out", *QUICK]
    code, out, err = call("run", *asked)
    assert code == 1
    assert "8 runs, 0 of them done before." in err
    assert "4 runs have results" in out and "4 of 8 runs have no results" in err
    assert "yacht split 3 dgp depth 1: FloatingPointError: after training" in out
    ends = re.findall(r"(?m)^yacht split 3 .*: failed: Floating|^yacht split 2 .*: ELBO", err)
    assert len(ends) == 8
    store = ResultsStore(tmp_path / "out")
    records = store.records()
    assert len(records) == 8 == len((tmp_path / "out" / "runs.jsonl").read_text().splitlines())
    for spec, record in records.items():
        assert record["status"] == ("failed" if spec.split == 3 else "ok")
        assert store.curve(spec)["step"][-1] == 19
    assert list((tmp_path / "out" / "checkpoints").iterdir()) == []

    # Again: nothing is repeated, and the failed runs still show.
    before = (tmp_path / "out" / "runs.jsonl").read_bytes()
    code, _, err = call("run", *asked)
    assert code == 1 and "8 runs, 8 of them done before" in err
    assert (tmp_path / "out" / "runs.jsonl").read_bytes() == before

    code, out, _ = call("run", *asked, "--dry-run")
    assert (code, out) == (0, "")
    code, out, _ = call("run", *asked, "--dry-run", "--retry-failed")
    assert code == 0 and out.count("split 3") == 4 and out.count("split 2") == 0


def test_a_dry_run_needs_no_data(tmp_path, monkeypatch):
    """Neither files nor network: the splits are known before."""
    monkeypatch.setenv("DEEPWISHART_DATA", str(tmp_path / "empty"))
    asked = ["--processes", "dwp", "--depths", 2, "--out", tmp_path / "out", "--dry-run"]
    code, out, err = call("run", *asked)
    assert code == 0 and "165 of 165 runs" in err
    assert out.count("protein") == 5 and out.count("yacht") == 20
    code, _, err = call("run", *asked[:-1])
    assert code == 2 and "is missing" in err
    assert not (tmp_path / "out").exists()


def test_runs_with_other_settings_are_other_runs(tmp_path):
    asked = ["run", "--datasets", "yacht", "--processes", "dwp", "--depths", 2, "--splits", 0]
    asked += [*QUICK, "--max-iter", 2, "--out", tmp_path, "--protocol", "converged"]
    other = ["--posterior", "rows", "--samples", 3, "--output", "inducing"]
    other += ["--start", "prior", "--learning-rate", 0.02]
    assert call(*asked, *other)[0] == 0
    ((spec, record),) = ResultsStore(tmp_path).records().items()
    assert spec.protocol == "converged" and record["steps"] == 2
    assert record["settings"]["model"] == {"num_inducing": 6, "posterior": "rows"}
    assert record["settings"]["protocol"]["num_samples"] == 3
    assert record["settings"]["start"] == "prior"
    assert record["settings"]["protocol"]["learning_rate"] == 0.02
    assert "0 of 1 runs" in call(*asked, *other, "--dry-run")[2]
    for fewer in (other[:2], other[2:], other[:-2], other[:-4], []):
        assert "1 of 1 runs" in call(*asked, *fewer, "--dry-run")[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--datasets", "yatch"], "Did you mean 'yacht'"),
        (["--datasets", "yacht", "boston"], "bostonHousing/data/data.txt is not in"),
        (["--splits", "4"], "No data set has a split 4"),
        (["--depths", "0-2"], "depth must be an integer of at least 1"),
        (["--posterior", "rows"], "rows is for dwp; leave dgp out"),
        (["--processes", "dsvi", "--start", "prior"], "prior is for dwp and dgp; leave dsvi out"),
        (["--learning-rate", "0"], "--learning-rate must be a positive"),
        (["--threads-per-worker", "0"], "--threads-per-worker must be"),
    ],
)
def test_bad_arguments(tmp_path, arguments, words):
    usual = [] if "--datasets" in arguments else ["--datasets", "yacht"]
    code, _, err = call("run", "--out", tmp_path / "out", *usual, *arguments)
    assert code == 2 and words in err
    assert not (tmp_path / "out" / "runs.jsonl").exists()


def workers(sweep: subprocess.Popen) -> list[int]:
    found = Path(f"/proc/{sweep.pid}/task/{sweep.pid}/children").read_text().split()
    lines = {int(pid): Path(f"/proc/{pid}/cmdline").read_text() for pid in found}
    return [pid for pid, line in lines.items() if "tracker" not in line]


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "workers outlive their sweep"
        time.sleep(0.05)


def test_kill_of_the_whole_sweep(tmp_path):
    """Killed with a run finished and others in flight, then started again: every run is there
    once, with the numbers of one that was never killed."""
    asked = ["--datasets", "yacht", "--processes", "dgp", "--depths", 2, "--splits", "0-2"]
    asked += ["--max-iter", 300, "--checkpoint-every", 25, *QUICK]
    sweep = start("run", *asked, "--out", tmp_path / "killed")
    with sweep:
        for line in sweep.stderr:
            if ": ELBO" in line:
                break
        pids = workers(sweep)
        refused = call("run", *asked, "--out", tmp_path / "killed")
        sweep.send_signal(signal.SIGKILL)
    assert refused[0] == 2 and "Another process (id" in refused[2]
    assert pids
    wait_until_gone(pids)
    survivors = ResultsStore(tmp_path / "killed").records()
    assert 1 <= len(survivors) < 3

    code, _, err = call("run", *asked, "--out", tmp_path / "killed")
    assert code == 0 and f"3 runs, {len(survivors)} of them done before" in err
    records = ResultsStore(tmp_path / "killed").records()
    lines = (tmp_path / "killed" / "runs.jsonl").read_text().splitlines()
    assert len(lines) == len(records) == 3
    for spec, record in survivors.items():
        assert records[spec] == record

    resumed = next(spec for spec in records if spec not in survivors)
    settings = Settings({"num_inducing": 6}, max_iter=300, elbo_samples=20, test_samples=5)
    whole = run(resumed, settings, datasets.load("yacht"), tmp_path / "whole")[0]
    for name in ("elbo", "elbo_se", "test_log_likelihood", "crps"):
        # Rounding may depend on where in memory a process puts its matrices.
        assert records[resumed][name] == pytest.approx(whole[name], rel=1e-7)


def test_interrupting_a_sweep(tmp_path):
    asked = ["--datasets", "yacht", "--processes", "dgp", "--depths", 2, "--splits", "0"]
    sweep = start("run", *asked, "--max-iter", 10**6, *QUICK, "--out", tmp_path)
    with sweep:
        while not list(tmp_path.glob("checkpoints/*/log")):
            time.sleep(0.02)
        pids = workers(sweep)
        sweep.send_signal(signal.SIGINT)
        _, rest = sweep.communicate(timeout=30)
    assert sweep.returncode == 130
    assert "1 of 1 runs to go; give the same command again" in rest
    wait_until_gone(pids)
    assert pids and ResultsStore(tmp_path).records() == {}
