"""Text files of all kinds come out as the same table, and say what was found out about them."""

import gzip
import io

import polars as pl
import pytest

from deepwishart.tables import Dialect, TableError, open_table, read_table
from deepwishart.tables.dialect import find_dialect

TEXT = 'größe;ort;y\n1,5;"a;b, c";10\n-2,25e3;São Paulo;20\n 3 ;x;30,0\n'
ROWS = [("1.5", "a;b, c", "10"), ("-2.25e3", "São Paulo", "20"), (" 3 ", "x", "30.0")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_same_table_from_every_file(tmp_path, encoding, end, packed):
    content = TEXT.replace("\n", end).encode(encoding)
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    with open_table(path) as table:
        assert table.read().columns == ["größe", "ort", "y"]
        assert table.read().rows() == ROWS
        assert "separated by semicolon, decimal comma" in table.remark
        assert "encoding" in table.remark


@pytest.mark.parametrize("given", ["t.csv", "t.txt", "t.tsv"])
@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_separators(tmp_path, given, mark):
    (tmp_path / given).write_text(f"a{mark}b\n1{mark}2.5\n3{mark}x y\n")
    assert read_table(tmp_path / given).rows() == [("1", "2.5"), ("3", "x y")]


@pytest.mark.parametrize(
    ("text", "separator", "decimal"),
    [
        ("x\n1\n2\n", ",", "."),  # one column: nothing separates
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


def test_the_usual_needs_no_remark(tmp_path):
    for name, mark in (("t.csv", ","), ("t.tsv", "\t")):
        (tmp_path / name).write_text(f"a{mark}b\n1{mark}2\n")
        with open_table(tmp_path / name) as table:
            assert table.remark == ""


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


def test_damage(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n" * 1000)[:-20])
    with pytest.raises(TableError, match="cannot be read"):
        read_table(path)
    path.write_bytes(b"\x1f\x8b nothing")
    with pytest.raises(TableError, match="cannot be read"):
        read_table(path)
    (tmp_path / "t.csv").write_bytes(b"a\n\xff\n")
    with pytest.raises(TableError, match="cannot be read"):
        read_table(tmp_path / "t.csv", Dialect(encoding="utf-8"))


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"separator": "::"}, "one character"),
        ({"decimal": ";"}, "decimal mark"),
        ({"encoding": "latin-99"}, "no encoding 'latin-99'"),
    ],
)
def test_dialects_that_cannot_be(what, words):
    with pytest.raises(TableError, match=words):
        Dialect(**what)


def test_faults_of_names_come_together(tmp_path):
    (tmp_path / "t.csv").write_text("x,,x,y,y\n1,2,3,4,5\n")
    with pytest.raises(TableError) as refusal:
        read_table(tmp_path / "t.csv")
    assert len(refusal.value.problems) == 3
