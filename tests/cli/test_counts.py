"""fit, predict and info with likelihoods other than Gaussian noise."""

import io
import json

import numpy as np
import polars as pl
import pytest

from .conftest import TINY, refused, run


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    random = np.random.default_rng(0)
    x, hours = random.uniform(-2, 2, 80), random.uniform(1, 9, 80)
    frame = pl.DataFrame({"x": x, "hours": hours, "visits": random.poisson(hours * np.exp(x))})
    path = tmp_path_factory.mktemp("counts") / "visits.csv"
    frame.write_csv(path)
    return path


@pytest.fixture(scope="module")
def model(visits, tmp_path_factory):
    out = tmp_path_factory.mktemp("counts") / "model"
    chosen = [
        "--likelihood",
        "poisson",
        "--exposure",
        "hours",
        "--report",
        out.with_suffix(".html"),
    ]
    result = run("fit", visits, "--target", "visits", "--out", out, *chosen, *TINY)
    assert result.exit_code == 0, result.output
    assert "standardised" not in out.with_suffix(".html").read_text()
    return out, json.loads(run("info", out, "--json").stdout)


def test_report_and_info_are_about_counts(model):
    out, facts = model
    scores = facts["holdout"]["targets"]["visits"]
    # A guess with the mean of about 11 and the spread of the training rows.
    assert -5 < scores["constant"]["log_likelihood"] < -2
    assert scores["model"]["log_likelihood"] > scores["constant"]["log_likelihood"]
    assert facts["model"]["likelihood"] == "poisson"
    assert facts["likelihood"]["visits"]["typical rate"] > 0
    assert "typical rate" in run("info", out).output


def test_predictions_are_whole_numbers_in_proportion_to_the_exposure(model, visits, tmp_path):
    result = run("predict", model[0], visits, "--quantiles", "0.05", "0.95")
    found = pl.read_csv(io.StringIO(result.stdout))
    ends = found.select("q0.05", "q0.95").to_numpy()
    assert np.array_equal(ends, ends.round()) and (ends >= 0).all()
    longer = pl.read_csv(visits).with_columns(pl.col("hours") * 10)
    longer.write_csv(tmp_path / "longer.csv")
    tenfold = run("predict", model[0], tmp_path / "longer.csv").stdout
    ratio = pl.read_csv(io.StringIO(tenfold))["mean"] / found["mean"]
    np.testing.assert_allclose(ratio.to_numpy(), 10.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("target", "chosen", "words"),
    [
        ("x", ["--likelihood", "poisson"], "Column 'x' of y has"),
        ("visits", ["--likelihood", "poisson", "--exposure", "hour"], "Did you mean 'hours'"),
        ("visits", ["--exposure", "hours"], "--exposure hours is for counts: use it with --l"),
        ("visits", ["--likelihood", "poisson", "--exposure", "odd"], "row 7 has -1"),
    ],
)
def test_refusals(visits, tmp_path, target, chosen, words):
    out, table = tmp_path / "model", pl.read_csv(visits)
    odd = pl.when(pl.int_range(pl.len()) == 6).then(-1).otherwise(1 + pl.int_range(pl.len()) % 5)
    table.with_columns(odd=odd).write_csv(tmp_path / "t.csv")
    command = ["fit", tmp_path / "t.csv", "--target", target, "--out", out]
    refused(run(*command, *chosen, *TINY), words)
    assert not out.exists()
