"""deepwishart example, and its table on both sides: the command line and Python."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import deepwishart
from deepwishart.persistence import ModelFileError

from .conftest import TINY, refused, run


@pytest.fixture(scope="module")
def houses(tmp_path_factory):
    path = tmp_path_factory.mktemp("example") / "houses.csv"
    assert run("example", path).exit_code == 0
    return path


def test_a_table_of_all_kinds_the_same_every_time(houses):
    table = pl.read_csv(houses, try_parse_dates=True)
    kinds = [pl.Date, pl.String, pl.Int64, pl.Int64, pl.Boolean, pl.Int64]
    assert table.dtypes == kinds and table["built"].null_count() > 10 and table["price"].min() > 0
    refused(run("example", houses), "exists already")
    refused(run("example", houses.with_suffix(".xlsx")), "no .csv file")
    refused(run("example", houses.parent / "none" / "t.csv"), "No such file or directory")
    assert run("example", houses.with_stem("again")).exit_code == 0
    assert houses.with_stem("again").read_bytes() == houses.read_bytes()


@pytest.mark.parametrize("target", ["price", "district"])
def test_a_model_of_the_command_line_takes_its_table_in_python(houses, target):
    out = houses.parent / target
    command = ["fit", houses, "--target", target, "--impute", "median", "--out", out, *TINY]
    fitted = run(*command, "--split-by", "sold", "--cv", 2)
    for words in ("40 rows held out, the last by sold", "in 2 parts, the last by sold"):
        assert words in fitted.output and words in run("info", out).output
    said = run("predict", out, houses)
    model, column = deepwishart.load(out), "mean" if target == "price" else "class"
    frame = pl.read_csv(houses)
    expected = pl.read_csv(said.stdout.encode())[column].to_numpy()
    for table in (frame, frame.to_dict(as_series=False), pd.read_csv(houses, parse_dates=["sold"])):
        np.testing.assert_array_equal(model.predict(table), expected)
    assert len(model.regressor.log_prob(model.encode(frame), frame[target].to_numpy())) == 400
    with pytest.raises(ModelFileError, match="does not exist"):
        deepwishart.load(houses.parent / "none")
