"""Tables as people have them, from the command line."""

import gzip

import numpy as np
import polars as pl
import pytest

from deepwishart.cli.directory import ModelDirectory

from .conftest import TINY, make_table, run


def messy(table: pl.DataFrame) -> str:
    """As Excel writes it in many countries: semicolons, decimal commas, a gap."""
    text = table.cast(pl.String).with_columns(pl.col("x", "price").str.replace(r"\.", ","))
    return text.write_csv(separator=";")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("messy")


@pytest.fixture(scope="module")
def fitted(folder):
    """A model of a messy table: Latin-1, packed, with rows that have no target, and a date."""
    table = (
        make_table()
        .drop("rent")
        .with_columns(
            id=pl.format("n° {}", pl.int_range(60)),
            sold=pl.date(2024, 1, 1) + pl.duration(days=pl.int_range(60)),
        )
    )
    prices = table["price"].to_list()
    prices[5], prices[9] = None, None
    table = table.with_columns(price=pl.Series(prices))
    text = messy(table).replace("\n", "\r\n").replace(";;", ";#N/A;", 1)
    (folder / "train.csv.gz").write_bytes(gzip.compress(text.encode("latin-1")))
    command = ["fit", folder / "train.csv.gz", "--target", "price", "--drop", "id"]
    result = run(*command, "--out", folder / "m", *TINY)
    assert result.exit_code == 0, result.output
    return folder / "m", table, result


def test_what_was_found_is_said_in_a_line_each(fitted):
    _, _, result = fitted
    found, left_out, in_time = result.stderr.strip().splitlines()
    assert "separated by semicolon, decimal comma, encoding cp1252" in found
    assert "--separator" in found and "--encoding" in found
    assert "2 rows without a target left out" in left_out
    assert "order in time (sold)" in in_time and "--split-by sold" in in_time
    shown = " ".join(run("info", fitted[0]).output.replace("│", " ").split())
    assert "sold (date: day of year, weekday, elapsed days)" in shown
    assert "rows without a target 2" in shown


def test_the_model_is_that_of_the_clean_table(fitted, folder):
    model, table, _ = fitted
    clean = table.drop("id").drop_nulls()
    clean.write_csv(folder / "clean.csv")
    result = run("fit", folder / "clean.csv", "--target", "price", "--out", folder / "c", *TINY)
    assert result.exit_code == 0 and result.stderr.count("\n") == 1
    tensors = [each / "regressor" / "model.safetensors" for each in (model, folder / "c")]
    assert tensors[0].read_bytes() == tensors[1].read_bytes()


def test_columns_are_kept(fitted, folder):
    model, table, _ = fitted
    (folder / "new.csv").write_bytes(messy(table).encode("latin-1"))
    out = folder / "p.parquet"
    result = run("predict", model, folder / "new.csv", "--keep", "id", "sold", "--out", out)
    assert result.exit_code == 0, result.output
    found = pl.read_parquet(out)
    assert found.columns[:3] == ["id", "sold", "mean"]
    assert found["id"].to_list() == table["id"].to_list()
    typed = folder / "new.parquet"
    table.write_parquet(typed)
    assert run("predict", model, typed, "--keep", "sold", "--out", out).exit_code == 0
    assert pl.read_parquet(out)["sold"].dtype == pl.Date
    assert sorted(each.name for each in folder.glob(".p*")) == []


def test_spellings_of_missing_values(folder):
    rows = "".join(f"{i if i % 7 else -999},{'NA' if i % 2 else 'u'},{i % 5}\n" for i in range(40))
    (folder / "t.csv").write_text(f"x,s,y\n{rows}")
    result = run(
        *["fit", folder / "t.csv", "--target", "y", "--missing", "-999", "none", "--impute"],
        *["median", "--out", folder / "missing", *TINY, "--max-iter", 2],
    )
    assert result.exit_code == 0, result.output
    encoder = ModelDirectory(folder / "missing").load().encoder
    assert encoder.columns[0].fill > 0
    assert encoder.columns[1].categories == ("NA", "u")
    new = pl.DataFrame({"x": ["-999"], "s": ["NA"]})
    assert encoder.encode(new).rows() == [(encoder.columns[0].fill, 1.0, 0.0)]


def test_problems_have_a_line_each_and_a_screenful_is_enough(folder):
    names = "".join(f",c{number}" for number in range(30))
    gaps = "," * 30
    rows = [f"{i},,{i}{gaps}" for i in range(9)]
    (folder / "bad.csv").write_text("\n".join([f"x,z,y{names}", *rows, f"a,,3{gaps}"]) + "\n")
    result = run("fit", folder / "bad.csv", "--target", "yy", "--out", folder / "none", *TINY)
    assert result.exit_code == 2
    first, *rest = result.stderr.strip().splitlines()
    assert first == "deepwishart: There are 33 problems:"
    assert len(rest) == 21 and rest[-1] == "deepwishart: ... and 13 more."
    for line, words in zip(rest, ["'yy'", "'x'", "'z'", "'c0'"], strict=False):
        assert words in line


# ---- categories that training did not have --------------------------------------------------


@pytest.fixture(scope="module")
def strange(folder, model):
    table = make_table(9000).drop("price", "rent")
    colours = table["colour"].to_list()
    colours[3], colours[8900] = "pink", "gold"
    table = table.with_columns(colour=pl.Series(colours))
    table.write_csv(folder / "strange.csv")
    pl.concat([table[2:4], table[8900:8901]]).write_csv(folder / "few.csv")
    return folder


def test_all_are_named_however_far_down(strange, model):
    result = run("predict", model, strange / "strange.csv", "--out", strange / "p.csv")
    assert result.exit_code == 2
    assert "'pink' (first in row 4), 'gold' (first in row 8901)" in result.stderr
    assert not (strange / "p.csv").exists()


def test_the_prior_answers(strange, model):
    result = run("predict", model, strange / "few.csv", "--unseen", "prior")
    assert result.exit_code == 0 and "2 rows have categories" in result.stderr
    found = pl.read_csv(result.stdout.encode())
    regressor = ModelDirectory(model).load().regressor
    process, units = regressor.model_, regressor._scaled.targets
    variance = process.output.kernel.on_diagonal(process.output.kernel.log_height.new_ones(1))
    spread = (variance + process.likelihood.noise).sqrt().item() * units.scale[0]
    centre = units.inverse(np.zeros((1, 1))).item()
    np.testing.assert_allclose(found["mean"][1:], centre, rtol=1e-9)
    np.testing.assert_allclose(found["std"][1:], spread, rtol=1e-9)
    np.testing.assert_allclose(found["q0.95"][1:], centre + 1.6448536 * spread, rtol=1e-6)
    assert found["std"][0] < spread


def test_other_is_none_of_those_known(strange, model):
    result = run("predict", model, strange / "few.csv", "--unseen", "other")
    found = pl.read_csv(result.stdout.encode())
    saved = ModelDirectory(model).load()
    X = saved.encoder.encode(pl.read_csv(strange / "few.csv"), unseen="other")
    assert X.select("colour=blue", "colour=green", "colour=red").sum_horizontal()[1] == 0
    np.testing.assert_allclose(found["mean"], saved.regressor.predict(X), rtol=1e-12)


def test_names_that_look_like_patterns(folder):
    rows = [f"{n},{'ab'[n % 2]},{n % 3}" for n in range(20)]
    (folder / "odd.csv").write_text("\n".join(["y,^x$,^.*$", *rows, "3,NA,1"]) + "\n")
    command = ["fit", folder / "odd.csv", "--target", "y", "--impute", "median"]
    result = run(*command, "--out", folder / "odd", *TINY)
    assert result.exit_code == 0, result.output
    predicted = run("predict", folder / "odd", folder / "odd.csv")
    assert predicted.exit_code == 0, predicted.output
