"""Targets that name classes: fit, predict, info, explain and the report."""

import io
import json

import numpy as np
import polars as pl
import pytest

from deepwishart import DeepKernelClassifier

from .conftest import make_table, refused, run

TINY = ["--depth", "1", "--inducing", "8", "--max-iter", "25", "--samples", "1"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The small table with a text target in three classes, one of them rare."""
    frame = make_table().drop("rent")
    x = frame["x"].to_numpy()
    kind = np.array(["low", "mid", "top"])[np.digitize(x, [-0.5, 1.8])]
    frame = frame.with_columns(pl.Series("kind", kind), pl.Series("code", np.digitize(x, [0.0])))
    path = tmp_path_factory.mktemp("classes") / "table.csv"
    frame.write_csv(path)
    return path


@pytest.fixture(scope="module")
def fitted(table, tmp_path_factory):
    """A model with its report; what fit said, and the page."""
    out = tmp_path_factory.mktemp("classes") / "model"
    page = out.with_suffix(".html")
    options = ["--drop", "code", "price", "--holdout", "0.3", "--out", out, "--report", page]
    result = run("fit", table, "--target", "kind", *options, *TINY)
    assert result.exit_code == 0, result.output
    return out, result, page.read_text()


def test_text_starts_a_classifier_better_than_the_guess(fitted):
    out, result, page = fitted
    assert "kind names 3 classes (low, mid, top): this is a classifier" in result.stderr
    assert list(DeepKernelClassifier.load(out / "regressor").classes_) == ["low", "mid", "top"]
    facts = json.loads(run("info", out, "--json").stdout)
    scores = facts["holdout"]["targets"]["kind"]
    assert scores.keys() == {"model", "majority", "linear"}
    assert scores["model"]["log_loss"] < scores["majority"]["log_loss"] - 0.2
    assert scores["model"]["accuracy"] > scores["majority"]["accuracy"]
    assert facts["data"]["classes"] == ["low", "mid", "top"]
    for words in ("log loss", "accuracy", "Brier score", "majority-class guess"):
        assert words in result.stdout and words in page
    assert "reliability" in page and "true class" in page
    assert "RMSE" not in page and "Calibration" not in page


def test_predict_writes_a_column_for_each_class(table, fitted):
    result = run("predict", fitted[0], table, "--keep", "kind")
    assert result.exit_code == 0, result.output
    found = pl.read_csv(io.BytesIO(result.stdout_bytes))
    assert found.columns == ["kind", "class", "p_low", "p_mid", "p_top"]
    probabilities = found.select("p_low", "p_mid", "p_top").to_numpy()
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-12)
    labels = np.array(["low", "mid", "top"])[probabilities.argmax(1)]
    assert found["class"].to_list() == labels.tolist()
    assert (found["class"] == found["kind"]).mean() > 0.7


def test_what_is_refused_of_classes(table, fitted, tmp_path):
    refused(run("predict", fitted[0], table, "--quantiles", "0.5"), "this model predicts classes")
    options = ["--out", tmp_path / "model", *TINY]
    several = run("fit", table, "--target", "kind", "--target", "price", *options)
    refused(several, "'kind' names classes: it has to be the only one")
    for more in (["--likelihood", "student_t"], ["--exposure", "x"]):
        refused(run("fit", table, "--target", "kind", *options, *more), *more, "kind names classes")


def test_explain_draws_probabilities(table, fitted, tmp_path):
    result = run("explain", fitted[0], table, "--columns", "x", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    dependence = pl.read_csv(tmp_path / "dependence.csv")
    assert set(dependence["target"]) == {"P(low)", "P(mid)", "P(top)"}
    ends = dependence.select("lower", "upper").to_numpy()
    assert (ends >= 0.0).all() and (ends <= 1.0).all() and (ends[:, 0] <= ends[:, 1]).all()
    relevance = pl.read_csv(tmp_path / "relevance.csv")
    assert relevance["column"][relevance["importance"].arg_max()] == "x"


def test_truth_values_and_numbers_that_are_categories(table, tmp_path):
    options = ["--holdout", "0.2", "--quiet", *TINY]
    first = run("fit", table, "--target", "new", "--out", tmp_path / "new", *options)
    assert first.exit_code == 0, first.output
    found = run("predict", tmp_path / "new", table).stdout
    assert found.splitlines()[0] == "class,p_false,p_true"
    codes = ["--target", "code", "--categorical", "code", "--cv", "2"]
    second = run("fit", table, *codes, "--out", tmp_path / "code", *options)
    assert second.exit_code == 0, second.output
    facts = json.loads(run("info", tmp_path / "code", "--json").stdout)
    assert facts["cv"]["targets"]["code"]["model"]["accuracy"]["mean"] > 0.7
    assert run("predict", tmp_path / "code", table).stdout.startswith("class,p_0,p_1")


def test_a_rare_class_is_not_held_out(tmp_path):
    frame = make_table(30).drop("rent").with_columns(kind=pl.Series(["a", "b"] * 14 + ["b", "c"]))
    frame.write_csv(tmp_path / "table.csv")
    seed = next(s for s in range(9) if 29 in np.random.default_rng(s).permutation(30)[:15])
    options = ["--holdout", "0.5", "--seed", seed, "--quiet", *TINY]
    out = ["--target", "kind", "--out", tmp_path / "m"]
    result = run("fit", tmp_path / "table.csv", *out, *options)
    assert result.exit_code == 0, result.output
    assert list(DeepKernelClassifier.load(tmp_path / "m").classes_) == ["a", "b", "c"]
