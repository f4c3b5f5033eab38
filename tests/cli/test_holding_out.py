"""Which rows are held out: at random, the last, or whole groups."""

import itertools

import polars as pl
import pytest

from deepwishart.cli.preparation import prepare
from deepwishart.estimators import DeepKernelRegressor

from .conftest import TINY, make_table, refused, run


def divide(folder, cv=0, **settings):
    """The rows of a table of 40 by their numbers, to train on and held out, of each division."""
    table = make_table(40).drop("rent", "price").with_row_index("number")
    table = table.with_columns(
        year=2020 - pl.col("number") // 8,
        day=pl.date(2024, 1, 1) + pl.duration(days=(pl.col("number") * 7) % 40),
    )
    table.with_columns(price=pl.col("x") ** 2).write_csv(folder / "t.csv")
    names = ("impute", "exposure", "separator", "decimal", "encoding", "date_order", "split_by")
    usual = dict.fromkeys(names) | {name: [] for name in ("drop", "categorical", "missing")}
    usual |= {"target": ["price"], "holdout": 0.1, "random_state": 0}
    found = prepare(folder / "t.csv", usual | settings, DeepKernelRegressor(), cv=cv, quiet=True)
    parts = [each.train[0] for each in found], [each.test[0] for each in found]
    return found, table, *([part["number"].cast(int).to_list() for part in side] for side in parts)


def test_the_last_rows(tmp_path):
    found, _, train, test = divide(tmp_path, cv=3, holdout="last:0.2")
    starts = [(32, 40), (10, 20), (20, 30), (30, 40)]
    assert test == [list(range(*each)) for each in starts]
    assert train == [list(range(start)) for start, _ in starts]
    assert found[0].notes == [] and found[0].split == "the last"


def test_the_last_by_a_column(tmp_path):
    """Rows of one year are not divided, however many are asked for."""
    assert divide(tmp_path, split_by="year")[2:] == ([list(range(8, 40))], [list(range(8))])
    found, table, train, test = divide(tmp_path, split_by="day", cv=2)
    for before, after in zip(train, test, strict=True):
        assert table["day"][before].max() < table["day"][after].min()
    assert [len(each) for each in test] == [4, 13, 14] and found[0].notes == []


@pytest.mark.parametrize(("by", "more"), [("colour", []), ("size", ["size"])])
def test_groups_stay_together(tmp_path, by, more):
    found, table, train, test = divide(tmp_path, cv=3, split_by=by, categorical=more)
    for here, there in zip(train, test, strict=True):
        assert sorted(here + there) == list(range(40))
        assert there and not set(table[by][here]) & set(table[by][there])
    assert sorted(itertools.chain(*test[1:])) == list(range(40))
    assert by not in [column.name for column in found[0].encoder.columns]
    assert found[0].notes == [f"{by} divides the rows, and is no input"]


def test_inputs_in_order_of_time_are_remarked_on(tmp_path):
    found, *_ = divide(tmp_path)
    (remark,) = found[0].notes
    assert "order in time (number, day)" in remark and "--split-by number" in remark


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--holdout", "lst"], ["'--holdout'", "lst", "last:0.2"]),
        (["--holdout", "last", "--split-by", "x"], ["--split-by", "give one"]),
        (["--split-by", "gap"], ["'gap'", "row 2"]),
        (["--split-by", "year", "--cv", "4"], ["--cv 4", "'year' stay together"]),
    ],
)
def test_what_cannot_be_divided_is_refused_in_one_line(tmp_path, more, words):
    row, table = pl.int_range(60), make_table().drop("rent")
    gap = pl.when(row != 1).then(1.0)
    table.with_columns(gap=gap, year=row // 30).write_csv(tmp_path / "t.csv")
    command = ["fit", tmp_path / "t.csv", "--target", "price", "--out", tmp_path / "m", *TINY]
    refused(run(*command, *([] if "gap" in more else ["--drop", "gap"]), *more), *words)
