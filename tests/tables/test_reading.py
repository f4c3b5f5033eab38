"""Files of all kinds come out as the same table, or are refused in one sentence."""

import gzip
import io
import os
from pathlib import Path

import polars as pl
import pytest

from deepwishart.tables import (
    Dialect,
    TableError,
    open_table,
    reading,
)
from deepwishart.tables.dialect import find_dialect


def read_table(path, dialect=None):
    with open_table(path, dialect) as table:
        return table.read()


TEXT = 'größe;ort;y\n1,5;"a;b, c";10\n-2,25e3;São Paulo;20\n 3 ;x;30,0\n'
ROWS = [("1.5", "a;b, c", "10"), ("-2.25e3", "São Paulo", "20"), (" 3 ", "x", "30.0")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16"])
@pytest.mark.parametrize(("end", "packed"), [("\n", False), ("\r\n", True)])
def test_the_same_table_from_every_file(tmp_path, encoding, end, packed):
    content = TEXT.replace("\n", end).encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    with open_table(path) as table:
        assert table.read().columns == ["größe", "ort", "y"]
        assert table.read().rows() == ROWS
        assert "separated by semicolon, decimal comma" in table.remark
        assert "encoding" in table.remark


@pytest.mark.parametrize(
    ("text", "separator", "decimal"),
    [
        ("x\n1\n2\n", ",", "."),  # one column: nothing separates
        ("a|b\n1|2.5\n3|x y\n", "|", "."),
        ("a,b\n1,x; y; z\n2,u; v\n", ",", "."),  # the names decide
        ("a;b\n1,5;2\n2,5;3\n", ";", ","),
        ("a;b\n1,5;2.5\n2,5;3\n", ";", "."),  # both marks: no decimal comma
        ("a;b\n1;2\n3;4\n", ";", "."),
        ('a,b\n"1,5",2\n"2,5",3\n', ",", "."),  # rather thousands
        ("a\tb\n1,5\t2\n", "\t", ","),
        ("a;b,c\n1;2\n3;4\n", ";", "."),
        ('a,"b\n1,2\n', ",", "."),  # a field without end
    ],
)
def test_what_is_found(tmp_path, text, separator, decimal):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert find_dialect(path, Dialect()) == Dialect(separator, decimal, "utf-8")


def test_points_between_thousands(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1.022,50;03.04.2024\n-12.345.678,5 €;1.2.3\n3,5 %;c, d\n")
    expected = [("1022.50", "03.04.2024"), ("-12345678.5 €", "1.2.3"), ("3.5 %", "c, d")]
    assert read_table(path).rows() == expected


def test_what_is_given_is_not_found_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a;b\n1,5;é\n".encode("cp850"))
    dialect = Dialect(separator=";", decimal=".", encoding="cp850")
    assert read_table(path, dialect).rows() == [("1,5", "é")]
    assert read_table(path, Dialect(separator="|")).width == 1


def test_one_odd_byte_at_the_end_of_a_long_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * 400_000 + b"2,\xe9\n")
    with open_table(path) as table:
        assert table.dialect.encoding == "cp1252"
        assert table.read()["b"][-1] == "é"


def test_standard_input(tmp_path, monkeypatch):
    class Input:
        def __init__(self, content):
            self.buffer = io.BytesIO(content)

    frame = pl.DataFrame({"a": [1.5]})
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    for content in (b"a\n1.5\n", gzip.compress(b"a\n1.5\n"), buffer.getvalue()):
        monkeypatch.setattr("sys.stdin", Input(content))
        assert float(read_table("-")["a"][0]) == 1.5
    monkeypatch.setattr("sys.stdin", Input(b""))
    with pytest.raises(TableError, match="standard input is empty"):
        read_table("-")


@pytest.mark.parametrize(
    ("name", "content", "dialect"),
    [
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:-20], None),
        ("t.csv.gz", b"\x1f\x8b nothing", None),
        ("t.csv", b"a\n\xff\n", Dialect(encoding="utf-8")),
        ("t.parquet", b"PAR1 nothing PAR1", None),
    ],
    ids=["cut", "no archive", "no text", "no Parquet"],
)
def test_damage(name, content, dialect, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableError, match="cannot be read"):
        read_table(tmp_path / name, dialect)


def test_faults_of_names_come_together(tmp_path):
    (tmp_path / "t.csv").write_text("x,,x,y,y\n1,2,3,4,5\n")
    with pytest.raises(TableError) as refusal:
        read_table(tmp_path / "t.csv")
    assert len(refusal.value.problems) == 3
    (tmp_path / "t.csv").write_text("y,y_duplicated_0\n1,2\n")  # as polars calls a second y
    assert read_table(tmp_path / "t.csv").columns == ["y", "y_duplicated_0"]


# ---- Parquet, and names -------------------------------------------------------------------------


def test_a_pipe_exists(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(TableError, match="is a pipe or a device"):
        read_table(tmp_path / "t.csv")


def test_a_panic_of_a_thread_is_not_missed(capfd):
    """One bit of this file makes a thread of polars panic, which then reports no rows at all."""
    with pytest.raises(TableError, match=r"panic\.parquet cannot be read"):
        read_table(Path(__file__).parents[1] / "data" / "panic.parquet")
    assert capfd.readouterr() == ("", "")


def test_no_module_of_the_working_directory_is_imported(tmp_path, monkeypatch):
    pl.DataFrame({"x": [1.0]}).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "polars.py").write_text("open('imported', 'w')")
    monkeypatch.chdir(tmp_path)
    assert read_table(tmp_path / "t.parquet").rows() == [(1.0,)]
    assert not (tmp_path / "imported").exists()


def test_what_unpacks_to_very_much_is_no_table(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_UNPACKED_ANYWAY", 2**20)
    with gzip.open(tmp_path / "t.csv.gz", "wb") as file:
        file.write(bytes(2**23))
    with pytest.raises(TableError, match="more than 200 times"), open_table(file.name):
        pass


def test_more_cells_than_memory_has_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_memory", lambda: 1000)
    (tmp_path / "t.csv").write_text("x,y\n" + "1,2\n" * 9)
    with open_table(tmp_path / "t.csv") as table, pytest.raises(TableError, match="memory"):
        table.read()


def test_a_name_that_is_no_text(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/gr\xf6.csv"))
    path.write_text("x,y\n1,2\n")
    with open_table(path) as table:
        assert table.read().to_dicts() == [{"x": "1", "y": "2"}]
