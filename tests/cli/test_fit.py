"""deepwishart fit: what it accepts, refuses, reports and keeps."""

import json

import polars as pl
import pytest

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
    assert DeepKernelRegressor.load(out / "regressor").n_iter_ == 15


def test_no_holdout_and_quiet(train_csv, tmp_path):
    result = run(
        *["fit", train_csv, "--target", "price", "--out", tmp_path / "m", "--holdout", "0"],
        *["--quiet", *TINY],
    )
    assert result.exit_code == 0
    assert result.output == ""
    assert ModelDirectory(tmp_path / "m").load().fit["holdout"] is None
    assert ModelDirectory(tmp_path / "m").load().fit["rows"] == 60


def test_parquet_gives_the_model_of_the_csv(table, train_csv, model, tmp_path):
    path = tmp_path / "train.parquet"
    table.drop("rent").write_parquet(path)
    assert run("fit", path, "--target", "price", "--out", tmp_path / "m", *TINY).exit_code == 0
    tensors = [folder / "regressor" / "model.safetensors" for folder in (tmp_path / "m", model)]
    assert tensors[0].read_bytes() == tensors[1].read_bytes()


def test_several_targets(table, tmp_path):
    table.write_csv(tmp_path / "train.csv")
    out = tmp_path / "m"
    result = run(
        *["fit", tmp_path / "train.csv", "--target", "price", "--target", "rent", "--out", out],
        *TINY,
    )
    assert result.exit_code == 0
    assert "price: 6 rows" in result.output and "rent: 6 rows" in result.output
    result = run("predict", out, tmp_path / "train.csv", "--out", tmp_path / "p.csv")
    assert result.exit_code == 0
    predicted = pl.read_csv(tmp_path / "p.csv")
    assert predicted.columns[:2] == ["price_mean", "price_std"]
    assert predicted.columns[5:7] == ["rent_mean", "rent_std"]
    correlation = predicted.select(pl.corr("price_mean", "rent_mean")).item()
    assert correlation > 0.9


def test_every_option_reaches_the_model(train_csv, tmp_path):
    out = tmp_path / "m"
    result = run(
        *["fit", train_csv, "--target", "price", "--out", out, "--process", "dgp", "--width", "3"],
        *["--kernel", "matern52", "--dtype", "float32", "--protocol", "paper", "--seed", "4"],
        *["--learning-rate", "0.005", "--batch-size", "20", "--early-stopping", "--drop", "size"],
        *["--device", "cpu", "--categorical", "new", *TINY],
    )
    assert result.exit_code == 0, result.output
    saved = ModelDirectory(out).load()
    expected = {
        **{"process": "dgp", "width": 3, "kernel": "matern52", "dtype": "float32"},
        **{"protocol": "paper", "random_state": 4, "learning_rate": 0.005, "batch_size": 20},
        **{"early_stopping": True, "device": "cpu", "depth": 2, "n_inducing": 8, "max_iter": 15},
        **{"n_samples": 2, "checkpoint_dir": None},
    }
    parameters = saved.regressor.get_params()
    assert {name: parameters[name] for name in expected} == expected
    assert "size" not in saved.encoder.feature_names
    assert "new=true" in saved.encoder.feature_names


# ---- bad input ----------------------------------------------------------------------------------


def fit(data, *more, target="y", out="unused"):
    return run("fit", data, "--target", target, "--out", data.parent / out, *TINY, *more)


GOOD = "x,y\n1,2\n2,3\n3,5\n4,4\n5,6\n"


def test_missing_file(tmp_path):
    refused(fit(tmp_path / "none.csv"), "none.csv", "does not exist")


def test_directory_instead_of_file(tmp_path):
    refused(fit(tmp_path), "is a directory")


def test_unknown_kind_of_file(write):
    refused(fit(write(GOOD, "t.xlsx")), "t.xlsx", ".csv", ".parquet")


def test_empty_file(write):
    refused(fit(write("")), "is empty")
    refused(fit(write("\n\n")), "t.csv")


def test_header_only(write):
    refused(fit(write("x,y\n")), "no rows")


def test_damaged_parquet(write):
    refused(fit(write("PAR1 and then nothing", "t.parquet")), "t.parquet", "cannot be read")


def test_ragged_lines(write):
    refused(fit(write(GOOD + "1,2,3,4\n")), "t.csv", "cannot be read")


def test_two_columns_of_one_name(write):
    refused(fit(write("x,x,y\n1,2,3\n2,3,4\n4,5,5\n")), "two columns named 'x'")


def test_column_without_a_name(write):
    refused(fit(write(",x,y\n1,2,3\n2,3,4\n4,5,5\n")), "Column 1", "no name")


def test_no_such_target_suggests_the_nearest(write):
    data = write("x,price\n1,2\n2,3\n3,5\n")
    refused(fit(data, target="prise"), "'prise'", "Did you mean 'price'?")
    refused(fit(data, target="Price"), "'Price'", "Did you mean 'price'?")


def test_target_twice(write):
    refused(fit(write(GOOD), "--target", "y"), "twice")


def test_text_target(write):
    data = write("x,y\n1,low\n2,high\n3,low\n")
    refused(fit(data), "'y'", "'low'", "number")


def test_boolean_target(tmp_path):
    pl.DataFrame({"x": [1, 2, 3], "y": [True, False, True]}).write_parquet(tmp_path / "t.parquet")
    refused(fit(tmp_path / "t.parquet"), "'y'", "number")


def test_one_odd_value_in_the_target(write):
    refused(fit(write(GOOD + "6,high\n")), "'y'", "'high'", "row 6")


def test_missing_target(write):
    data = write(GOOD + "6,\n")
    refused(fit(data), "'y'", "1 missing", "row 6")
    refused(fit(data, "--impute", "median"), "'y'", "1 missing", "row 6")


def test_missing_input(write):
    refused(fit(write(GOOD + "NA,6\n")), "'x'", "1 missing", "row 6", "--impute median")


def test_column_without_values(write):
    refused(fit(write("x,e,y\n1,,1\n2,,3\n3,,4\n"), "--impute", "median"), "'e'", "--drop")


def test_unknown_imputation(write):
    refused(fit(write(GOOD), "--impute", "mean"), "'median'", "'mean'")


def test_constant_target(write):
    refused(fit(write("x,y\n1,7\n2,7\n3,7\n")), "'y'", "7 in every row")


def test_constant_inputs(write):
    refused(fit(write("x,w,y\n1,2,7\n1,2,8\n1,2,9\n")), "constant")


def test_infinite_input(write):
    refused(fit(write(GOOD + "inf,6\n")), "'x'", "row 6", "finite")


def test_only_the_target(write):
    refused(fit(write("y\n1\n2\n3\n")), "no columns left")


def test_too_few_rows(write):
    refused(fit(write("x,y\n1,2\n2,3\n")), "2 rows")


def test_text_among_numbers(write):
    data = write(GOOD + "'6,6\n")
    refused(fit(data), "'x'", "row 6", "--categorical x")


def test_identifiers_are_no_categories(write):
    rows = "".join(f"name{i},{i % 7},{i % 5}\n" for i in range(30))
    refused(fit(write(f"id,x,y\n{rows}")), "'id'", "30 different values", "--drop id")


def test_dates(tmp_path):
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 1, 6), eager=True)
    pl.DataFrame({"day": days, "y": [1, 2, 3, 4, 5, 7]}).write_parquet(tmp_path / "t.parquet")
    refused(fit(tmp_path / "t.parquet"), "'day'", "dates")


@pytest.mark.parametrize(
    ("option", "value", "near"),
    [
        ("--process", "dvp", "dwp"),
        ("--kernel", "matern25", "matern52"),
        ("--dtype", "float46", "float64"),
        ("--protocol", "papper", "paper"),
        ("--drop", "X", "x"),
        ("--categorical", "xx", "x"),
    ],
)
def test_unknown_names_suggest_the_nearest(write, option, value, near):
    refused(fit(write(GOOD), option, value), f"'{value}'", f"'{near}'")
    assert not (write(GOOD).parent / "unused").exists()


@pytest.mark.parametrize("option", ["--learning-rate", "--device", "--holdout", "--inducing"])
def test_impossible_values(write, option):
    refused(fit(write(GOOD), option, "-1"), option.strip("-").replace("-", "_")[:6])


# ---- directories --------------------------------------------------------------------------------


def test_existing_model_needs_force_and_is_kept(train_csv, tmp_path):
    out = tmp_path / "m"
    command = ["fit", train_csv, "--target", "price", "--out", out, *TINY]
    assert run(*command).exit_code == 0
    first = (out / "regressor" / "model.safetensors").read_bytes()
    refused(run(*command, "--seed", "1"), str(out), "--force")
    assert (out / "regressor" / "model.safetensors").read_bytes() == first
    assert run(*command, "--seed", "1", "--force").exit_code == 0
    assert (out / "regressor" / "model.safetensors").read_bytes() != first
    assert (out / "previous" / "model.safetensors").read_bytes() == first


def test_failed_force_leaves_the_model(train_csv, tmp_path):
    out = tmp_path / "m"
    command = ["fit", train_csv, "--target", "price", "--out", out, *TINY]
    assert run(*command).exit_code == 0
    first = (out / "regressor" / "model.safetensors").read_bytes()
    assert run(*command, "--force", "--learning-rate", "1e300").exit_code == 1
    assert (out / "regressor" / "model.safetensors").read_bytes() == first
    assert run("predict", out, train_csv).exit_code == 0


def test_other_directories_are_left_alone(train_csv, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    for more in ([], ["--force"], ["--resume"]):
        result = run("fit", train_csv, "--target", "price", "--out", tmp_path, *TINY, *more)
        refused(result, "other things")
    refused(
        run("fit", train_csv, "--target", "price", "--out", tmp_path / "thesis.txt", *TINY),
        *["thesis.txt", "is a file"],
    )
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


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
    refused(run(*command, "--resume"), "--learning-rate 1e+300", "no --learning-rate")
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


def test_resume_of_nothing_starts(write):
    assert fit(write(GOOD), "--resume", out="m").exit_code == 0


def test_damaged_run_file(write, tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "run.json").write_text("{")
    refused(fit(write(GOOD), "--force", out="m"), "run.json", "damaged")
