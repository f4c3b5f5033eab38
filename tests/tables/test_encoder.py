"""Columns of several kinds become columns of numbers, the same at prediction as at training."""

import json

import numpy as np
import polars as pl
import pytest

from deepwishart.tables import Column, TableEncoder, TableError, open_table
from deepwishart.tables.encoder import MAX_CATEGORIES


def kinds(encoder: TableEncoder) -> dict[str, str]:
    return {column.name: column.kind for column in encoder.columns}


def test_kinds_from_text():
    """All values decide, not the first ones."""
    columns = {
        "integer number": ["1", "2", "3"],
        "float number": ["1e3", " -2.5", ".5"],
        "truth boolean": ["True", "false", "TRUE"],
        "text category": ["a", "b", "7"],
        "zero_one number": ["0", "1", "1"],
    }
    found = kinds(TableEncoder.fit(pl.DataFrame(columns)))
    assert found == {name: name.split()[1] for name in columns}


def test_kinds_from_types():
    table = pl.DataFrame(
        {"i": [1, 2], "f": [0.5, 1.5], "b": [True, False], "s": ["u", "v"]},
        schema_overrides={"s": pl.Categorical},
    )
    encoder = TableEncoder.fit(table)
    assert kinds(encoder) == {"i": "number", "f": "number", "b": "boolean", "s": "category"}
    assert encoder.encode(table).rows() == [(1, 0.5, 1, 1, 0), (2, 1.5, 0, 0, 1)]
    spelled = {"i": [3, 4], "f": [" 1e3", ".5"], "b": ["TRUE", "0"], "s": [" u ", "v"]}
    assert encoder.encode(pl.DataFrame(spelled)).rows() == [(3, 1000, 1, 1, 0), (4, 0.5, 0, 0, 1)]
    with pytest.raises(TableError, match=r"'b' has 'yes' in row 11 where true or false"):
        encoder.encode(pl.DataFrame({**spelled, "b": ["true", "yes"]}), range(10, 12))


def test_json_round_trip():
    table = pl.DataFrame(
        {"x": ["1", "2", None], "s": ["a", None, "b"], "b": ["true", None, "true"]}
    )
    encoder = TableEncoder.fit(table, impute="median")
    assert TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict()))) == encoder
    with pytest.raises(TableError, match="no spellings"):
        TableEncoder.from_dict({**encoder.to_dict(), "missing": [1]})


@pytest.mark.parametrize("missing", ["", "n/a", "NaN", "?", "#DIV/0!", None])
def test_spellings_of_missing(missing):
    table = pl.DataFrame({"x": ["1", "4", missing, "2"], "s": ["u", missing, "v", "v"]})
    with pytest.raises(TableError, match=r"'x' has 1 missing values, the first in row 3"):
        TableEncoder.fit(table)
    encoder = TableEncoder.fit(table, impute="median")
    assert encoder.encode(table).rows() == [(1, 1, 0), (4, 0, 1), (2, 0, 1), (2, 0, 1)]


def test_imputation_takes_given_rows_only():
    table = pl.DataFrame({"x": [1.0, 5.0, None, 100.0], "s": ["u", "v", None, "w"]})
    encoder = TableEncoder.fit(table, impute="median", fill_from=[0, 1, 2])
    assert (encoder.columns[0].fill, encoder.columns[1].fill) == (3.0, "u")
    assert encoder.columns[1].categories == ("u", "v", "w")
    nothing = TableEncoder.fit(table, impute="median", fill_from=[2])
    assert [column.fill for column in nothing.columns] == [0.0, "u"]


@pytest.mark.parametrize("own", ["v0", "Other"])
def test_rare_categories_are_pooled(own):
    """A hundred at least, and more in longer tables; one of the table's own may be the other."""
    often = [f"v{i % MAX_CATEGORIES}" if i % MAX_CATEGORIES else own for i in range(10_000)]
    table = pl.DataFrame({"s": [*often, "rare", "rarer", "rare"]})
    assert len(TableEncoder.fit(table, categorical=["s"]).feature_names) == MAX_CATEGORIES + 2
    (column,) = TableEncoder.fit(table).columns
    assert len(column.pooled) == (2 if own == "Other" else 3)
    encoder = TableEncoder.from_dict(TableEncoder.fit(table, impute="median").to_dict())
    names = pl.DataFrame({"s": [column.other, *column.pooled]})
    encoded = encoder.encode(names).to_numpy()
    assert (encoded == encoded[0]).all() and encoded.sum() == len(names)
    assert not encoder.unseen(names).any()
    with pytest.raises(TableError, match="'new'"):
        encoder.encode(pl.DataFrame({"s": ["new"]}))
    with pytest.raises(TableError, match="too many to be categories"):  # of three rows each
        TableEncoder.fit(pl.DataFrame({"s": [f"id {i // 3}" for i in range(1000)]}))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (["$1,022", "-$3.5", "$ 1,234,567.25", "12"], [1022, -3.5, 1234567.25, 12]),
        (["7 €", "1 022 €", "€1'000.5"], [7, 1022, 1000.5]),
        (["12.3%", "100 %", "-0.5%"], [0.123, 1, -0.005]),
        (["14:45", "0:00", "9:30:36"], [14.75, 0, 9.51]),
        (["1,5", "1,022", "1,022"], None),  # a decimal comma, perhaps
        (["$5", "$7", "€5"], None),
    ],
)
def test_numbers_as_people_write_them(text, numbers):
    table = pl.DataFrame({"x": text})
    if numbers is None:
        with pytest.raises(TableError, match=r"'x' holds numbers, but '.*' in row [123]"):
            TableEncoder.fit(table)
    else:
        found = TableEncoder.fit(table).encode(table)
        np.testing.assert_allclose(found["x"], numbers, rtol=1e-14)


def test_a_column_half_empty_says_where():
    table = pl.DataFrame({"x": ["1", None, "3", None], "s": [None, "u", None, "v"]})
    encoder = TableEncoder.fit(table, impute="median")
    assert encoder.feature_names == ["x", "x: missing", "s=u", "s=v", "s: missing"]
    assert encoder.encode(table)[:2].rows() == [(1, 0, 1, 0, 1), (2, 1, 1, 0, 0)]
    assert all("half of it or more is missing" in column.remarks[0] for column in encoder.columns)
    assert TableEncoder.from_dict(encoder.to_dict()) == encoder


def test_names_must_not_collide():
    table = pl.DataFrame({"s": ["a", "b"], "s=a": ["1", "2"]})
    with pytest.raises(TableError, match="'s=a'"):
        TableEncoder.fit(table)


def test_streaming_gives_every_row_once(tmp_path):
    path = tmp_path / "t.csv"
    pl.DataFrame({"i": range(1000), "s": ['quoted "x"\nnew line'] * 1000}).write_csv(path)
    with open_table(path) as file:
        batches, whole = list(file.stream(batch_rows=64)), file.read()
    assert max(len(batch) for batch in batches) <= 64
    assert pl.concat(batches)["i"].cast(pl.Int64).to_list() == list(range(1000))
    assert whole.equals(pl.concat(batches))


# ---- everything that is wrong, at once -----------------------------------------------------------


def test_all_columns_that_cannot_be_used_are_named():
    table = pl.DataFrame(
        {
            "odd": ["1", "2", "x", *"4567"] * 5,
            "gap": ["1", None, *"34567"] * 5,
            "far": ["1", "inf", *"34567"] * 5,
            "empty": [None] * 35,
            "day": ["2024-01-01", "2024-13-01", *["2024-01-05"] * 5] * 5,
            "id": [f"name {i}" for i in range(35)],
            "fine": list(range(35)),
        }
    )
    with pytest.raises(TableError) as refusal:
        TableEncoder.fit(table)
    names = ("odd", "gap", "far", "empty", "day", "id")
    assert len(refusal.value.problems) == len(names)
    for name in names:
        assert sum(f"'{name}'" in problem for problem in refusal.value.problems) == 1
    assert "There are 6 problems: (1) " in str(refusal.value)


def test_all_faults_of_another_table_are_named():
    encoder = TableEncoder.fit(
        pl.DataFrame({"x": [1, 2], "w": [1, 2], "s": ["a", "b"], "t": ["u", "v"]})
    )
    table = pl.DataFrame(
        {"x": ["1", "?", "high"], "w": [None, None, 1], "s": ["a", "c", "d"], "t": ["U", "u", "v"]}
    )
    with pytest.raises(TableError) as refusal:
        encoder.encode(table, [7, 8, 9])
    odd, missing, unseen, other = refusal.value.problems
    assert "'x' has 'high' in row 9" in odd
    assert "'w' has 2 missing values, the first in row 7" in missing
    assert "'s' has 2 categories" in unseen
    assert "'c' (first in row 8), 'd' (first in row 9)" in unseen
    assert "Did you mean 'u'?" in other


@pytest.mark.parametrize("fill", [2**64, -(2**70), "3", True])
def test_a_fill_that_no_column_has_room_for_is_refused(fill):
    plain = Column("x", "number", fill=1.0).to_dict() | {"fill": fill}
    with pytest.raises(TableError, match="does not describe a column"):
        Column.from_dict(plain)


@pytest.mark.parametrize("text", ["\u0663", "\u0661\u0662:30", "\u0662\u0660\u0662\u0664-01-05"])
def test_digits_of_other_scripts_are_text(text):
    """They count as digits in regular expressions, and to no parser of numbers."""
    table = pl.DataFrame({"x": [text, "b", text, "b"] * 5})
    assert kinds(TableEncoder.fit(table)) == {"x": "category"}
