"""Files of all kinds: read, or refused in one sentence."""

import os
from pathlib import Path

import polars as pl
import pytest
from polars.exceptions import PanicException

from deepwishart.tables import TableEncoder, TableError, read_table, read_targets, reading


def test_a_name_that_looks_like_a_duplicate_is_none(tmp_path):
    (tmp_path / "t.csv").write_text("y,y_duplicated_0\n1,2\n")
    assert read_table(tmp_path / "t.csv").columns == ["y", "y_duplicated_0"]
    (tmp_path / "t.csv").write_text("y,y\n1,2\n")
    with pytest.raises(TableError, match="two columns named 'y'"):
        read_table(tmp_path / "t.csv")


def test_a_pipe_exists(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(TableError, match="is a pipe or a device"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("call", ["collect_schema", "collect_batches"])
def test_a_panic_is_refused_like_other_damage(call, tmp_path, monkeypatch):
    """Some damage to Parquet files makes polars panic, which is no Exception in Python."""
    pl.DataFrame({"x": [1.0]}).write_parquet(tmp_path / "t.parquet")

    def panic(*arguments, **options):
        raise PanicException("assertion failed: offset + length <= self.length")

    monkeypatch.setattr(pl.LazyFrame, call, panic)
    with pytest.raises(TableError, match=r"t\.parquet cannot be read: assertion failed"):
        read_table(tmp_path / "t.parquet")


def test_brackets_in_names_are_no_patterns(tmp_path):
    (tmp_path / "t[1].csv").write_text("x\n1\n")
    assert read_table(tmp_path / "t[1].csv").rows() == [("1",)]
    table = pl.DataFrame({"^x.*$": [1.0, 2.0], "xx": ["a", "b"]})
    assert TableEncoder.fit(table).encode(table).columns == ["^x.*$", "xx=a", "xx=b"]
    assert read_targets(table, ["^x.*$"]).ravel().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("largest", ["1e308", "-1.7e308"])
def test_targets_near_the_end_of_the_number_line(largest):
    with pytest.raises(TableError, match=r"'y' has values up to 1\.?7?e\+308"):
        read_targets(pl.DataFrame({"y": ["1", largest]}), ["y"])


def test_messages_shorten_and_escape_names():
    name = "\x1b[2J" + "n" * 5000
    with pytest.raises(TableError) as refusal:
        TableEncoder.fit(pl.DataFrame({name: ["1", None]}))
    assert "\x1b" not in str(refusal.value) and len(str(refusal.value)) < 400
    with pytest.raises(TableError) as refusal:
        read_targets(pl.DataFrame({f"{name}{i}": [1] for i in range(50)}), ["y"])
    assert "\x1b" not in str(refusal.value) and len(str(refusal.value)) < 2000
    with pytest.raises(TableError) as refusal:
        read_targets(pl.DataFrame({"y": ["1", name]}), ["y"])
    assert "\x1b" not in str(refusal.value) and len(str(refusal.value)) < 400


def test_a_panic_of_a_thread_is_not_missed(capfd):
    """One bit of this file makes a thread of polars panic, which then reports no rows at all."""
    with pytest.raises(TableError, match=r"panic\.parquet cannot be read"):
        read_table(Path(__file__).parents[1] / "data" / "panic.parquet")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("end", ["os.abort()", "sys.exit(3)"])
def test_damage_ends_a_process_that_can_be_spared(end, tmp_path, monkeypatch):
    pl.DataFrame({"x": [1.0]}).write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(reading, "_DECODE", f"import os, sys; {end}")
    with pytest.raises(TableError, match=r"t\.parquet cannot be read: it is damaged\."):
        read_table(tmp_path / "t.parquet")


def test_no_module_of_the_working_directory_is_imported(tmp_path, monkeypatch):
    pl.DataFrame({"x": [1.0]}).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "polars.py").write_text("open('imported', 'w')")
    monkeypatch.chdir(tmp_path)
    assert read_table(tmp_path / "t.parquet").rows() == [(1.0,)]
    assert not (tmp_path / "imported").exists()
