"""deepwishart fit --report and --cv; deepwishart explain."""

import json
import re

import numpy as np
import polars as pl
import pytest

from deepwishart.cli.directory import ModelDirectory
from deepwishart.estimators.relevance import dependence

from .conftest import TINY, make_table, refused, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """One run with everything, on a table with two targets and a date."""
    folder = tmp_path_factory.mktemp("report")
    table = make_table().with_columns(
        sold=pl.date(2024, 1, 1) + pl.duration(days=pl.int_range(60)), price=1000 * pl.col("price")
    )
    table.write_csv(folder / "train.csv")
    result = run(
        *["fit", folder / "train.csv", "--target", "price", "--target", "rent", "--out"],
        *[folder / "m", "--report", folder / "r.html", "--cv", 2, "--holdout", 0.3],
        *TINY,
    )
    assert result.exit_code == 0, result.output
    return folder, json.loads(run("info", folder / "m", "--json").stdout)


def test_the_page_needs_nothing_else_and_has_everything(outcome):
    folder, facts = outcome
    assert (facts["data"]["rows"], facts["holdout"]["rows"]) == (42, 18)
    assert list(facts["holdout"]["targets"]["rent"]) == ["model", "constant", "linear", "gp"]
    page = (folder / "r.html").read_text()
    assert not re.search(r"https?:|//|@import|<script|<link|url\((?!#)", page)
    assert "prefers-color-scheme: dark" in page
    # Two targets: truth and calibration each; relevance and training once.
    assert page.count("<svg") == page.count("</svg>") == 2 * 2 + 2
    for word in ("plain GP", "linear model", "constant guess", "Cross-validated", "sold (date"):
        assert word in page
    rmse = facts["holdout"]["targets"]["price"]["model"]["rmse"]
    assert f"<td>{rmse:,.0f}</td>" in page.replace(" class=best", "")
    assert "e+0" not in re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)


def test_cross_validation_holds_out_every_row_once(outcome):
    folder, facts = outcome
    assert (facts["cv"]["folds"], facts["cv"]["rows"]) == (2, 60)
    assert list(facts["cv"]["targets"]["rent"]) == ["model", "constant", "linear"]
    rmse = facts["cv"]["targets"]["price"]["constant"]["rmse"]
    truth = pl.read_csv(folder / "train.csv")["price"].to_numpy()
    order = np.random.default_rng(0).permutation(60)
    each = []
    for part, rest in ((order[:30], order[30:]), (order[30:], order[:30])):
        each.append(np.sqrt(np.mean((truth[part] - truth[rest].mean()) ** 2)))
    np.testing.assert_allclose(rmse["mean"], np.mean(each), rtol=1e-9)
    np.testing.assert_allclose(rmse["standard_error"], abs(each[0] - each[1]) / 2, rtol=1e-9)
    assert "cross-validated in 2 parts" in run("info", folder / "m").output


def test_several_targets_are_predicted_side_by_side(outcome):
    folder, _ = outcome
    out = folder / "p.csv"
    assert run("predict", folder / "m", folder / "train.csv", "--out", out).exit_code == 0
    found = pl.read_csv(out)
    assert found.columns[:2] == ["price_mean", "price_std"]
    assert found.columns[5:7] == ["rent_mean", "rent_std"]
    assert found.select(pl.corr("price_mean", "rent_mean")).item() > 0.9


def test_explain(outcome, tmp_path):
    folder, _ = outcome
    out = tmp_path / "why"
    command = ["explain", folder / "m", folder / "train.csv", "--rows", 20]
    result = run(*command, "--out", out, "--columns", "colour", "sold", "x")
    assert result.exit_code == 0, result.output
    assert "20 rows of 60" in result.stderr and "lost without it" in result.stdout
    files = {"relevance.csv", "relevance.png", "dependence.csv", "dependence.png"}
    assert {each.name for each in out.iterdir()} == files | {"dependence2.png"}
    relevance = pl.read_csv(out / "relevance.csv")
    assert set(relevance["column"]) == {"x", "size", "colour", "new", "sold"}
    assert (relevance["standard_error"] >= 0).all() and (relevance["lengthscale"] > 0).all()
    curves = pl.read_csv(out / "dependence.csv")
    assert set(curves["target"]) == {"price", "rent"}
    assert (curves["lower"] <= curves["upper"]).all()
    assert set(curves.filter(column="colour")["value"]) == {"blue", "green", "red"}


def test_explain_without_targets(outcome, tmp_path):
    folder, _ = outcome
    pl.read_csv(folder / "train.csv").drop("rent").write_csv(tmp_path / "t.csv")
    result = run("explain", folder / "m", tmp_path / "t.csv", "--columns", "new")
    assert result.exit_code == 0
    assert "lengthscales only" in result.stderr and "±" not in result.stdout
    refused(run("explain", folder / "m", folder / "train.csv", "--columns", "siz"), "'size'")


def test_what_is_averaged_is_what_functions_say(outcome):
    """The mean curve lies where the regressor's own predictions average to."""
    folder, _ = outcome
    saved = ModelDirectory(folder / "m").load()
    table = pl.read_csv(folder / "train.csv").head(15)
    X = saved.encoder.encode(table).to_numpy()
    values = np.array([[-1.0], [1.0]])
    found = dependence(saved.regressor, X, [0], values, num_functions=400)
    for value, mean in zip(values, found.mean, strict=True):
        changed = X.copy()
        changed[:, 0] = value
        names = saved.encoder.feature_names
        expected = saved.regressor.predict(pl.DataFrame(changed, schema=names)).mean(0)
        spread = (found.upper - found.lower).max(0) / np.sqrt(400)
        assert (abs(mean - expected) < 2 * spread).all()


def test_what_the_data_chose_is_said(tmp_path):
    """Noise that depends on the inputs: on the terminal, in info and in the page."""
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, 120)
    y = x + np.where(x > 0, 1.0, 0.05) * random.standard_normal(120)
    pl.DataFrame({"x": x, "y": y}).write_csv(tmp_path / "t.csv")
    quick = ["--num-inducing", 15, "--max-iter", 120, "--samples", 2]
    where = ["--out", tmp_path / "m", "--report", tmp_path / "r.html"]
    result = run("fit", tmp_path / "t.csv", "--target", "y", *where, *quick)
    assert result.exit_code == 0, result.output
    assert re.search("chosen by the bound: kernel .*, likelihood heteroscedastic_t", result.output)
    assert "plain GP" in result.output
    page, info = (tmp_path / "r.html").read_text(), run("info", tmp_path / "m").output
    for text in (result.output, info):
        assert re.search(r"squared_exponential +│ +heteroscedastic_t │ +1 │", text)
        assert re.search(r"matern32 +│ +gaussian │ +1 │", text)
    assert "<td>matern32</td><td>gaussian</td><td>1</td>" in page
    assert "likelihood\nheteroscedastic_t" in page and "kernel auto" not in page


def test_pages_escape_names_and_pictures_take_their_colours(tmp_path):
    rows = "".join(f"{i % 7},{'ab'[i % 2]}<i>\n" for i in range(30))
    (tmp_path / "t.csv").write_text(f"<script>,<b>y\n{rows}")
    page = tmp_path / "r.html"
    options = ["--target", "<b>y", "--out", tmp_path / "m", "--report", page, "--holdout", "0.3"]
    result = run("fit", tmp_path / "t.csv", *options, *TINY)
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert not re.search("<script>|<b>|<i>", text)
    assert "<h1>&lt;b&gt;y from t.csv</h1>" in text and "<th>b&lt;i&gt;</th>" in text
    assert 'aria-label="reliability of &lt;b&gt;y"' in text and "<td class=best>" in text
    assert "var(--blue)" in text and "currentColor" in text and "#000000" not in text
    dark = text[text.index("prefers-color-scheme: dark") :]
    for name in set(re.findall(r"var\((--\w+)\)", text)):
        assert text.count(f"{name}:") == 2 and f"{name}:" in dark  # in light and in dark


def test_names_are_no_markup(tmp_path):
    table = pl.DataFrame({"[red]x[/blue]": range(30), "y": [0.1 * each**2 for each in range(30)]})
    table.write_csv(tmp_path / "t.csv")
    command = ["fit", tmp_path / "t.csv", "--target", "y", "--depth", "1", "--holdout", "0"]
    assert run(*command, "--out", tmp_path / "m", "--quiet").exit_code == 0
    result = run("explain", tmp_path / "m", tmp_path / "t.csv")
    assert result.exit_code == 0 and "[red]x[/blue]" in result.stdout
