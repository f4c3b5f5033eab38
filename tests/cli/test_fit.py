"""deepwishart fit: what it accepts, refuses, reports and keeps."""

import contextlib
import json
import os
import signal

import polars as pl
import pytest

from deepwishart._support.lock import locked
from deepwishart.cli.directory import ModelDirectory
from deepwishart.estimators import DeepKernelRegressor

from .conftest import TINY, refused, run


@pytest.fixture
def write(tmp_path):
    """Write a CSV file from text."""

    def write(text: str, name: str = "t.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def tensors(folder):
    return (folder / "model.safetensors").read_bytes()


def test_report_and_files(train_csv, tmp_path):
    out = tmp_path / "model"
    result = run("fit", train_csv, "--target", "price", "--out", out, "--holdout", "0.2", *TINY)
    assert result.exit_code == 0
    for words in ("12 rows held out", "log likelihood", "RMSE", "CRPS", "90%", "constant guess"):
        assert words in result.output
    assert sorted(entry.name for entry in out.iterdir()) == ["regressor", "run.json"]
    saved = ModelDirectory(out).load()
    assert saved.encoder.feature_names == [
        *["x", "size", "colour=blue", "colour=green", "colour=red", "new"]
    ]
    scores = saved.fit["holdout"]["targets"]["price"]
    assert scores["model"]["rmse"] < scores["constant"]["rmse"]
    assert DeepKernelRegressor.load(out).n_iter_ == 15


# ---- bad input ----------------------------------------------------------------------------------


def fit(data, *more, target="y", out="unused"):
    return run("fit", data, "--target", target, "--out", data.parent / out, *TINY, *more)


GOOD = "x,y\n1,2\n2,3\n3,5\n4,4\n5,6\n"


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("", [], ["is empty"]),
        ("x,y\n", [], ["no rows"]),
        (GOOD, ["--target", "y"], ["twice"]),
        ("x,y\n1,low\n2,high\n3,low\n", [], ["'y'", "low", "too many for classes", "numbers"]),
        (GOOD + "6,high\n", [], ["'y'", "'high'", "row 6"]),
        ("x,y,z\n1,2,\n2,,3\n3,4,\n", ["--target", "z"], ["No row has a value for every"]),
        ("x,y\n1,7\n2,7\n3,7\n", [], ["'y'", "7 in every row"]),
        (GOOD + "NA,6\n", [], ["'x'", "1 missing", "row 6", "--impute median"]),
        (GOOD, ["--impute", "mean"], ["'median'", "'mean'"]),
        ("x,w,y\n1,2,7\n1,2,8\n1,2,9\n", [], ["constant"]),
        ("y\n1\n2\n3\n", [], ["no columns left"]),
        ("x,y\n1,2\n2,3\n", [], ["2 rows"]),
        (GOOD, ["--jitter", "5"], ["--jitter", "between 0 and 0.1"]),
        (GOOD, ["--posterior", "rows", "--process", "dgp"], ["--posterior rows", "--process dwp"]),
        (GOOD, ["--resume", "--force"], ["--resume", "--force", "give one"]),
        (GOOD, ["--report", "none/r.html"], ["--report", "no such directory"]),
        (GOOD, ["--report", "r.pdf"], [".html", "r.pdf"]),
        (GOOD, ["--report", "r.html", "--holdout", "0"], ["--holdout"]),
        (GOOD, ["--cv", "3"], ["--cv 3", "2 to 2 parts"]),
        (GOOD, ["--inducing", "-1"], ["--num-inducing must be", "-1"]),
        ("max_iter,y\n1,2\n2,3\n4,5\n", ["--drop", "x"], ["no column 'x'", "has max_iter, y"]),
        (GOOD, ["--depth", "1.5"], ["--depth must be 'auto' or"]),
    ],
)
def test_bad_input_is_refused_in_one_line(write, tmp_path, text, more, words):
    refused(fit(write(text), *more), *words)
    assert not (tmp_path / "unused").exists()


# ---- directories --------------------------------------------------------------------------------


def test_existing_model_needs_force_and_is_kept(train_csv, tmp_path):
    out = tmp_path / "m"
    command = ["fit", train_csv, "--target", "price", "--out", out, *TINY]
    assert run(*command).exit_code == 0
    first = tensors(out / "regressor")
    refused(run(*command, "--seed", "1"), str(out), "--force")
    assert run(*command, "--force", "--learning-rate", "1e300").exit_code == 1  # training fails
    assert tensors(out / "regressor") == first
    assert run("predict", out, train_csv).exit_code == 0
    assert run(*command, "--seed", "1", "--force").exit_code == 0
    assert tensors(out / "regressor") != first and tensors(out / "previous") == first


def test_a_run_killed_before_its_last_word_keeps_what_it_replaced(train_csv, tmp_path, monkeypatch):
    """The new model is in place, but nobody has said that the run is finished."""
    out = tmp_path / "m"
    command = ["fit", train_csv, "--target", "price", "--out", out, *TINY]
    assert run(*command).exit_code == 0
    first = tensors(out / "regressor")
    mark = ModelDirectory.mark

    def killed(self, status):
        if status == "finished":
            raise OSError("killed")
        mark(self, status)

    with monkeypatch.context() as patch:
        patch.setattr(ModelDirectory, "mark", killed)
        assert run(*command, "--seed", "1", "--force").exit_code == 2
    (out / ".regressor.0123abcd.tmp").mkdir()
    assert run(*command, "--seed", "1", "--resume").exit_code == 0
    assert tensors(out / "regressor") != first
    assert tensors(out / "previous") == first
    (out / "checkpoints").mkdir()  # and one that was killed even later
    assert run(*command, "--seed", "1", "--resume").exit_code == 0
    assert sorted(entry.name for entry in out.iterdir()) == ["previous", "regressor", "run.json"]


def test_other_directories_are_left_alone(train_csv, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    command = ["fit", train_csv, "--target", "price", *TINY, "--out"]
    for more in ([], ["--force"], ["--resume"]):
        refused(run(*command, tmp_path, *more), "other things")
    refused(run(*command, tmp_path / "thesis.txt"), "thesis.txt", "is a file")
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]
    (tmp_path / "run.json").write_text("{")
    refused(run(*command, tmp_path, "--force"), "run.json", "damaged")


def test_a_model_that_cannot_be_leaves_no_run(train_csv, tmp_path):
    command = ["fit", train_csv, "--target", "price", "--out", tmp_path / "m", *TINY]
    refused(run(*command, "--kernel", "relu", "--inputs", "all"), "'relu'")
    refused(run("info", tmp_path / "m"), "There is no model in")
    assert run(*command).exit_code == 0


def test_failed_training_says_where_the_last_good_state_is(train_csv, tmp_path):
    out = tmp_path / "m"
    command = ["fit", train_csv, "--target", "price", "--out", out, *TINY]
    result = run(*command, "--learning-rate", "1e300")
    assert result.exit_code == 1
    (checkpoint,) = out.glob("checkpoints/*/*.safetensors")
    assert str(checkpoint) in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert json.loads((out / "run.json").read_text())["status"] == "failed"
    refused(run(*command), "unfinished", "--resume", "--force")
    refused(run(*command, "--resume"), "with --learning-rate 1e+300, not")
    refused(run("predict", out, train_csv), "has not finished")
    assert run(*command, "--force").exit_code == 0


def test_resume_of_a_finished_run_changes_nothing(train_csv, model):
    before = {path: path.stat().st_mtime_ns for path in model.rglob("*")}
    command = ["fit", train_csv, "--target", "price", "--out", model, *TINY, "--resume"]
    result = run(*command)
    assert result.exit_code == 0
    assert "already finished" in result.stderr
    refused(run(*command, "--seed", "3"), "--seed")
    assert {path: path.stat().st_mtime_ns for path in model.rglob("*")} == before


def test_resume_with_other_data_is_refused(write, tmp_path):
    data = write(GOOD)
    assert fit(data, "--learning-rate", "1e300", out="m").exit_code == 1
    data.write_text(GOOD + "6,5\n")
    refused(fit(data, "--learning-rate", "1e300", "--resume", out="m"), "data file has changed")


def test_a_second_fit_is_refused_with_the_id_of_the_first(write, tmp_path):
    (tmp_path / "m").mkdir()
    with locked(tmp_path / "m"):
        refused(fit(write(GOOD), out="m"), f"(id {os.getpid()})", "another directory")
    assert fit(write(GOOD), out="m").exit_code == 0


@pytest.fixture
def ctrl_c_at(monkeypatch):
    """A function that makes Ctrl-C arrive at a given step."""

    def arrange(step):
        @contextlib.contextmanager
        def make_progress(verbose, total, label):
            yield lambda event: event.step == step and os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr("deepwishart.estimators.base.make_progress", make_progress)

    return arrange


def test_an_interrupted_run_replaces_its_own_model_only(write, tmp_path, ctrl_c_at):
    out, data = tmp_path / "m", write(GOOD)
    ctrl_c_at(2)
    assert fit(data, out="m").exit_code == 130
    first = tensors(out / "regressor")
    ctrl_c_at(6)
    assert fit(data, "--resume", out="m").exit_code == 130
    assert DeepKernelRegressor.load(out / "regressor").n_iter_ == 7
    own = tensors(out / "regressor")
    assert own != first == tensors(out / "previous")
    ctrl_c_at(4)
    result = fit(data, "--force", out="m")
    assert result.exit_code == 130
    assert "is as it was" in result.stderr and "--resume instead of --force" in result.stderr
    assert tensors(out / "regressor") == own
    ctrl_c_at(None)
    assert fit(data, "--resume", out="m").exit_code == 0
    assert tensors(out / "previous") == own != tensors(out / "regressor")


def test_control_characters_of_names_do_not_reach_the_terminal(write, tmp_path):
    data = write(f"x,\x1b[2J[red]y{'z' * 500}\n1,2\n2,3\n3,5\n4,4\n")
    name = data.read_text().splitlines()[0].split(",")[1]
    result = fit(data, target="y\x1b[2J")
    assert "\x1b" not in result.stderr and len(result.stderr) < 1000
    result = fit(data, target=name, out="m")
    assert result.exit_code == 0
    assert "\x1b" not in result.output and "zzz..." in result.output
    described = run("info", tmp_path / "m").output
    assert "\x1b" not in described and "[red]" in described


@pytest.mark.parametrize("target", ["kind", "y"])
def test_estimators_get_exactly_what_was_given(write, tmp_path, target):
    """Also where a default of one of them is the other's choice: depth auto, posterior, ard."""
    rows = "".join(f"{i},{'ab'[i % 2]},{i % 5},{i % 3},{i % 2}\n" for i in range(20))
    data = write(f"x,kind,y,id,code\n{rows}")
    given = {"depth": "auto", "posterior": "auto", "kernel": "squared_exponential", "max_iter": 2}
    given |= {"process": "dgp", "width": 3, "dtype": "float32", "protocol": "fast"}
    given |= {"learning_rate": 0.005, "batch_size": 15, "device": "cpu"}
    words = [w for k, v in given.items() for w in (f"--{k.replace('_', '-')}", v)]
    words += ["--num-inducing", "auto", "--samples", 2, "--seed", 4, "--ard", "--all-steps"]
    expected = {**given, "n_inducing": "auto", "n_samples": 2, "random_state": 4, "ard": True}
    expected |= {"early_stopping": False, "checkpoint_dir": None}
    table = ["--target", target, "--drop", "id", "--categorical", "code", "--holdout", "0"]
    result = run("fit", data, "--out", tmp_path / "m", *table, *words, "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    saved = ModelDirectory(tmp_path / "m").load()
    assert (saved.fit["holdout"], saved.fit["rows"]) == (None, 20)
    assert "id" not in saved.encoder.feature_names and "code=1" in saved.encoder.feature_names
    usual = type(saved.regressor)().get_params()
    assert saved.regressor.get_params() == usual | expected


def test_a_formula_in_a_category_is_said(write, tmp_path):
    rows = "".join(f"{each},{'=1+1' if each % 2 else 'b'}\n" for each in range(12))
    data = write(f"x,kind\n{rows}")
    assert fit(data, "--quiet", target="kind", out="m").exit_code == 0
    result = run("predict", tmp_path / "m", data, "--keep", "kind", "--out", tmp_path / "p.csv")
    assert result.exit_code == 0 and "'=1+1' looks like a formula" in result.stderr
    assert set(pl.read_csv(tmp_path / "p.csv")["kind"]) == {"=1+1", "b"}


def test_links_lead_nowhere(write, tmp_path):
    """What is planted beside the files that a fit writes is no way to other files."""
    data, victim = write(GOOD), tmp_path / "victim"
    assert fit(data, out="m").exit_code == 0
    victim.mkdir()
    (victim / "file").write_text("as it was")
    (tmp_path / "m" / ".run.json.partial").symlink_to(victim / "file")
    (tmp_path / "m" / "previous").symlink_to(victim)
    assert fit(data, "--force", out="m").exit_code == 0
    assert (victim / "file").read_text() == "as it was" and len(list(victim.iterdir())) == 1
    assert run("predict", tmp_path / "m" / "previous", data).exit_code == 0
