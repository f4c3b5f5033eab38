"""deepwishart predict."""

import numpy as np
import polars as pl
import pytest

from deepwishart.cli.directory import ModelDirectory
from deepwishart.estimators import DeepKernelRegressor
from deepwishart.numerics.linalg import CholeskyError

from .conftest import make_table, refused, run, start


@pytest.fixture
def new(table, tmp_path):
    path = tmp_path / "new.csv"
    table.drop("price", "rent").head(20).write_csv(path)
    return path


def predict(model, data, *more):
    out = data.parent / "out.csv"
    result = run("predict", model, data, "--out", out, *more)
    assert result.exit_code == 0, result.output
    return pl.read_csv(out)


def test_predictions_are_those_of_the_regressor(model, new):
    table = pl.read_csv(new)
    saved, regressor = ModelDirectory(model).load(), DeepKernelRegressor.load(model)
    distribution = regressor.predict_distribution(saved.encoder.encode(table))
    # Columns in any order, with others between, and quantiles that are close.
    shuffled = table.with_row_index("id").select("new", "id", "colour", "size", "x")
    shuffled.write_csv(new)
    found = predict(model, new, "--quantiles", "0.1234567", "0.1234568", "0.75")
    assert found.columns == ["mean", "std", "q0.1234567", "q0.1234568", "q0.75"]
    assert (found["q0.1234567"] < found["q0.1234568"]).all()
    np.testing.assert_allclose(found["mean"], distribution.mean, rtol=1e-12)
    np.testing.assert_allclose(found["std"], distribution.stddev, rtol=1e-12)
    np.testing.assert_allclose(found["q0.75"], distribution.quantile(0.75), rtol=1e-12)


def test_standard_output_and_default_quantiles(model, new):
    expected = predict(model, new)
    result = run("predict", "--quantiles", "0.05", "0.5", "0.95", model, new)
    assert pl.read_csv(result.stdout.encode()).equals(expected)
    assert expected.columns == ["mean", "std", "q0.05", "q0.5", "q0.95"]
    assert (expected["q0.05"] < expected["q0.5"]).all()


def test_long_tables_are_read_in_batches(model, tmp_path, monkeypatch):
    """More rows than a batch has: each predicted once, in order, as if it were alone."""
    table = make_table(9000).drop("price", "rent")
    table.write_csv(tmp_path / "long.csv")
    sizes = []
    whole = DeepKernelRegressor.predict_distribution

    def counted(self, X):
        sizes.append(len(X))
        return whole(self, X)

    monkeypatch.setattr(DeepKernelRegressor, "predict_distribution", counted)
    found = predict(model, tmp_path / "long.csv", "--quantiles", "0.5")
    assert sum(sizes) == len(found) == 9000
    assert max(sizes) <= 8192
    table.tail(100).write_csv(tmp_path / "end.csv")
    end = predict(model, tmp_path / "end.csv", "--quantiles", "0.5")
    np.testing.assert_allclose(found.tail(100).to_numpy(), end.to_numpy(), rtol=1e-9)


ROW = {"x": ["0.5"], "size": ["1"], "colour": ["red"], "new": ["true"]}


@pytest.mark.parametrize(
    ("row", "more", "words"),
    [
        ({"x": ["1"], "color": ["red"], "new": ["true"]}, [], ["'size'", "'colour'"]),
        ({**ROW, "colour": ["gren"]}, [], ["'colour'", "'gren'", "row 1", "mean 'green'?"]),
        ({**ROW, "x": [""]}, [], ["'x'", "row 1"]),
        ({**ROW, "x": ["1,5"]}, ["--separator", "comma"], ["'x'", "'1,5'", "row 1"]),
        ({**ROW, "x": ["1e300"]}, [], ["'x'", "standard deviations"]),
        (ROW, ["--quantiles=0"], ["--quantiles"]),
        (ROW, ["--quantiles", "0.5", "0.50"], ["different"]),
        (ROW, ["--keep", "idd"], ["'idd'"]),
        ({**ROW, "mean": ["1"]}, ["--keep", "mean"], ["two columns"]),
    ],
)
def test_bad_input_is_refused_in_one_line(model, tmp_path, row, more, words):
    pl.DataFrame(row).write_csv(tmp_path / "new.csv")
    refused(run("predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv", *more), *words)
    assert [entry.name for entry in tmp_path.iterdir()] == ["new.csv"]


def test_predictions_that_are_no_numbers_are_not_written(model, new, monkeypatch):
    monkeypatch.setattr(
        "deepwishart.estimators.RescaledPredictive.mean_and_stddev",
        lambda self: (np.where(np.arange(len(self)) == 3, np.inf, 0.0), np.ones(len(self))),
    )
    out = new.parent / "p.csv"
    refused(run("predict", model, new, "--out", out), "row 4", "not a finite number")
    assert not out.exists()


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "memory"),
        (CholeskyError("The kernel matrix of layer 1 has no factor."), "layer 1"),
    ],
)
def test_failures_of_the_machine_are_one_line(model, new, monkeypatch, error, word):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(DeepKernelRegressor, "predict_distribution", fail)
    refused(run("predict", model, new), word)


def test_bad_output(model, new, tmp_path):
    before = new.read_text()
    refused(run("predict", model, new, "--out", new), "the table itself")
    refused(run("predict", model, new, "--out", tmp_path), "--out")
    refused(run("predict", model, new, "--out", tmp_path / "p.xlsx"), ".parquet")
    refused(run("predict", model, new, "--out", tmp_path / "none" / "p.csv"), "no such directory")
    assert new.read_text() == before


def test_bad_models(model, new, tmp_path):
    refused(run("predict", tmp_path / "none", new), "no model")
    refused(run("predict", tmp_path, new), "no model in")
    refused(run("predict", model, tmp_path / "none.csv"), "none.csv", "does not exist")


@pytest.mark.parametrize("named", [True, False])
def test_model_saved_from_python(table, tmp_path, named):
    """Columns without names are called x1, x2, ..."""
    regressor = DeepKernelRegressor(depth=1, n_inducing=8, max_iter=5, n_samples=1, random_state=0)
    X = table.select("x", "size")
    X = X if named else X.to_numpy()
    regressor.fit(X, table["price"].to_numpy()).save(tmp_path / "m")
    names = ["x", "size"] if named else ["x1", "x2"]
    columns = table.select("x", "size").rename(dict(zip(["x", "size"], names, strict=True)))
    columns.select(names[::-1]).write_csv(tmp_path / "new.csv")
    found = predict(tmp_path / "m", tmp_path / "new.csv")
    np.testing.assert_allclose(found["mean"], regressor.predict(X), rtol=1e-12)
    assert run("info", tmp_path / "m").exit_code == 0
    (tmp_path / "new.csv").write_text("a\n1\n")
    refused(run("predict", tmp_path / "m", tmp_path / "new.csv"), "', '".join(names))


def test_a_reader_who_has_enough_ends_it_quietly(model, train_csv):
    running = start("predict", model, train_csv)
    running.stdout.close()
    _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (1, "")
