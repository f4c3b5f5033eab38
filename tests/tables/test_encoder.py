"""Columns of several kinds become columns of numbers, the same at prediction as at training."""

import json

import numpy as np
import polars as pl
import pytest

from deepwishart.tables import Column, TableEncoder, TableError, open_table, read_table
from deepwishart.tables.encoder import MAX_CATEGORIES


def kinds(encoder: TableEncoder) -> dict[str, str]:
    return {column.name: column.kind for column in encoder.columns}


def test_kinds_from_text():
    """All values decide, not the first ones."""
    table = pl.DataFrame(
        {
            "integer": ["1", "2", "3"],
            "float": ["1e3", " -2.5", ".5"],
            "truth": ["True", "false", "TRUE"],
            "text": ["a", "b", "7"],
            "zero_one": ["0", "1", "1"],
        }
    )
    assert kinds(TableEncoder.fit(table)) == {
        **{"integer": "number", "float": "number", "truth": "boolean"},
        **{"text": "category", "zero_one": "number"},
    }


def test_kinds_from_types():
    table = pl.DataFrame(
        {"i": [1, 2], "f": [0.5, 1.5], "b": [True, False], "s": ["u", "v"]},
        schema_overrides={"s": pl.Categorical},
    )
    encoder = TableEncoder.fit(table)
    assert kinds(encoder) == {"i": "number", "f": "number", "b": "boolean", "s": "category"}
    assert encoder.encode(table).rows() == [(1, 0.5, 1, 1, 0), (2, 1.5, 0, 0, 1)]


def test_text_and_types_encode_alike():
    typed = pl.DataFrame({"i": [1, 2], "b": [True, False], "s": ["u", "v"], "c": [10, 20]})
    text = typed.cast(pl.String)
    encoder = TableEncoder.fit(text, categorical=["c"])
    assert encoder == TableEncoder.fit(typed, categorical=["c"])
    assert encoder.encode(typed).equals(encoder.encode(text))
    assert all(kind == pl.Float64 for kind in encoder.encode(text).dtypes)


def test_truth_reads_all_spellings():
    encoder = TableEncoder((Column("b", "boolean"),))
    values = pl.DataFrame({"b": ["TRUE", "false", "1", "0"]})
    assert encoder.encode(values)["b"].to_list() == [1, 0, 1, 0]
    with pytest.raises(TableError, match=r"'b' has 'yes' in row 11 where true or false"):
        encoder.encode(pl.DataFrame({"b": ["true", "yes"]}), range(10, 12))


def test_json_round_trip():
    table = pl.DataFrame(
        {"x": ["1", "2", None], "s": ["a", None, "b"], "b": ["true", None, "true"]}
    )
    encoder = TableEncoder.fit(table, impute="median")
    assert TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict()))) == encoder
    with pytest.raises(TableError, match="no spellings"):
        TableEncoder.from_dict({**encoder.to_dict(), "missing": [1]})


@pytest.mark.parametrize("missing", ["", "NA", "n/a", "NaN", "null", "?", "#N/A", "#DIV/0!", None])
def test_spellings_of_missing(missing):
    table = pl.DataFrame({"x": ["1", "4", missing, "2"], "s": ["u", missing, "v", "v"]})
    with pytest.raises(TableError, match=r"'x' has 1 missing values, the first in row 3"):
        TableEncoder.fit(table)
    encoder = TableEncoder.fit(table, impute="median")
    assert encoder.encode(table).rows() == [(1, 1, 0), (4, 0, 1), (2, 0, 1), (2, 0, 1)]


def test_imputation_takes_given_rows_only():
    table = pl.DataFrame({"x": [1.0, 5.0, None, 100.0], "s": ["u", "v", None, "w"]})
    encoder = TableEncoder.fit(table, impute="median", fill_from=[0, 1, 2])
    assert encoder.columns[0].fill == 3.0
    assert encoder.columns[1].fill == "u"
    assert encoder.columns[1].categories == ("u", "v", "w")
    assert TableEncoder.fit(table, impute="median", fill_from=[2]).columns[0].fill == 0.0
    assert TableEncoder.fit(table, impute="median", fill_from=[2]).columns[1].fill == "u"


def test_nan_in_numbers_is_missing():
    with pytest.raises(TableError, match="'x' has 1 missing"):
        TableEncoder.fit(pl.DataFrame({"x": [1.0, float("nan")]}))


def test_number_of_categories_is_limited():
    many = pl.DataFrame({"s": [f"v{i % (MAX_CATEGORIES + 1)}" for i in range(1000)]})
    with pytest.raises(TableError, match="101 different values"):
        TableEncoder.fit(many)
    assert len(TableEncoder.fit(many, categorical=["s"]).feature_names) == 101


def test_names_must_not_collide():
    table = pl.DataFrame({"s": ["a", "b"], "s=a": ["1", "2"]})
    with pytest.raises(TableError, match="'s=a'"):
        TableEncoder.fit(table)


def test_rows_of_categories_sum_to_one():
    table = pl.DataFrame({"s": ["a", " b ", "c", "a"]})
    encoded = TableEncoder.fit(table).encode(table).to_numpy()
    np.testing.assert_array_equal(encoded.sum(1), 1.0)


def test_streaming_gives_every_row_once(tmp_path):
    path = tmp_path / "t.csv"
    pl.DataFrame({"i": range(1000), "s": ['quoted "x"\nnew line'] * 1000}).write_csv(path)
    with open_table(path) as file:
        batches = list(file.stream(batch_rows=64))
    assert max(len(batch) for batch in batches) <= 64
    assert pl.concat(batches)["i"].cast(pl.Int64).to_list() == list(range(1000))
    assert read_table(path).equals(pl.concat(batches))


def test_the_number_of_calls_does_not_grow_with_the_columns(monkeypatch):
    """One call of polars for each column and step took minutes for a table of 2,000 columns."""

    def count(columns: int) -> int:
        calls = []
        collect = pl.LazyFrame.collect
        with monkeypatch.context() as patch:
            patch.setattr(
                pl.LazyFrame, "collect", lambda *a, **k: calls.append(1) or collect(*a, **k)
            )
            patch.setattr(
                pl.LazyFrame,
                "_collect_eager",
                lambda self, *a, **k: calls.append(1) or collect(self),
            )
            table = pl.DataFrame(
                {f"c{i}": ["1.5", "2", "3"] if i % 2 else ["u", "v", "u"] for i in range(columns)}
            )
            assert TableEncoder.fit(table).encode(table).shape == (3, columns // 2 * 3)
        return len(calls)

    assert count(200) == count(20) > 0


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "colour"},
        {"kind": "number"},
        {"name": 3},
        {"categories": "ab"},
        {"categories": [1]},
        {"categories": []},
        {"fill": "c"},
        {"fill": [1]},
        {"parts": ["year"]},
        {"kind": "date", "categories": [], "fill": None, "parts": ["century"]},
        {"kind": "date", "categories": [], "fill": None, "parts": ["year"], "origin": "1970"},
    ],
)
def test_what_describes_no_column(change):
    good = Column("s", "category", ("a", "b"), "a").to_dict()
    assert Column.from_dict(good).fill == "a"
    with pytest.raises(TableError, match="does not describe a column"):
        Column.from_dict({**good, **change})
