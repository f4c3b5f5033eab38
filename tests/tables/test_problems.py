"""Everything that is wrong with a table, at once."""

import polars as pl
import pytest

from deepwishart.tables import TableEncoder, TableError


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


def test_unseen_categories_by_choice():
    encoder = TableEncoder.fit(pl.DataFrame({"s": ["a", "b"], "t": ["u", "Other"]}))
    table = pl.DataFrame({"s": ["c", "b"], "t": ["new", "u"]})
    assert encoder.encode(table, unseen="other").rows() == [(0, 0, 1, 0), (0, 1, 0, 1)]
    assert {k: v.to_list() for k, v in encoder.unseen(table).items()} == {
        "s": [True, False],
        "t": [True, False],
    }
    with pytest.raises(TableError, match="Did you mean 'other'"):
        encoder.encode(table, unseen="othr")
