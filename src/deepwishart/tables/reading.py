"""Text and Parquet files, whole or in batches."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from polars.exceptions import NoDataError, PanicException, PolarsError

from deepwishart.tables.dialect import AFTER, BEFORE, Dialect, find_dialect
from deepwishart.tables.problems import Problems, TableError, quoted

STANDARD_INPUT = "-"
# A damaged Parquet file can make polars panic, which is not even an Exception to Python.
_UNREADABLE = (PolarsError, PanicException)
_SUFFIXES = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": ",", ".parquet": ""}
_BYTES_PER_CELL = 100  # of a table with all that is computed from it before training
_UNPACKED_ANYWAY, _MOST_TIMES = 2**28, 200  # bytes of packed text, and times its packed size
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_DECIMAL_COMMA = rf"^({BEFORE}[0-9]*),([0-9]+(?:[eE][+-]?[0-9]+)?{AFTER})$"
_THOUSANDS = rf"^{BEFORE}[1-9][0-9]{{0,2}}(?:\.[0-9]{{3}})+(?:,[0-9]+)?{AFTER}$"
_DECODE = """
import sys
import polars
try:
    table = polars.scan_parquet(sys.argv[1], glob=False)
    rows = sum(map(len, table.collect_batches(lazy=True)))
    if rows != table.select(polars.len()).collect().item():  # a thread that panics is not missed
        raise ValueError("rows are missing")
except BaseException as error:
    print(error)
    sys.exit(1)
"""


@dataclass(frozen=True)
class TableFile:
    """A table that is ready to be read.

    Args:
        name: as messages call it.
        file: Parquet, or text in UTF-8.
        dialect: how the text was written; ``None`` for Parquet.
        remark: what was found out about it, if that is not the usual.
    """

    name: str
    file: Path
    dialect: Dialect | None
    remark: str

    def stream(self, batch_rows: int = 8192) -> Iterator[pl.DataFrame]:
        """Batches of at most ``batch_rows`` rows, in order."""
        lazy = self._scan()
        found = False
        try:
            for frame in lazy.collect_batches(
                chunk_size=batch_rows, maintain_order=True, lazy=True
            ):
                for batch in frame.iter_slices(batch_rows):
                    found = True
                    yield batch
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        if not found:
            raise TableError(f"{self.name} has column names but no rows.")

    def read(self) -> pl.DataFrame:
        """All rows, if there is memory for the numbers that they become."""
        frames, cells, most = [], 0, _memory() // _BYTES_PER_CELL
        for frame in self.stream():
            cells += len(frame) * frame.width
            if cells > most:
                raise TableError(
                    f"{self.name} has more than {most:.1g} cells, for which this machine has not "
                    "enough memory; fit to fewer rows, or columns."
                )
            frames.append(frame)
        return pl.concat(frames, rechunk=True)

    def digest(self) -> str:
        """The SHA-256 of the content."""
        with open(self.file, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _scan(self) -> pl.LazyFrame:
        text: dict[str, Any] = {"infer_schema": False, "glob": False}
        try:
            if self.dialect is None:
                lazy = pl.scan_parquet(self.file, glob=False)
                names = lazy.collect_schema().names()
            else:
                text["separator"] = self.dialect.separator
                lazy = pl.scan_csv(self.file, **text)
                names = lazy.collect_schema().names()
                # The names as they are: polars calls the second of two columns x_duplicated_0.
                head = pl.scan_csv(self.file, **text, has_header=False, n_rows=1)
                written = [name or "" for name in head.collect().row(0)]
                names = written if len(written) == len(names) else names
        except NoDataError as error:
            raise TableError(f"{self.name} is empty.") from error
        except (*_UNREADABLE, OSError) as error:
            raise self._unreadable(error) from error
        self._check_names(names)
        if self.dialect is not None and self.dialect.decimal == ",":
            whole = pl.all().str.replace_all(".", "", literal=True)
            plain = pl.when(pl.all().str.contains(_THOUSANDS)).then(whole).otherwise(pl.all())
            return lazy.with_columns(plain.str.replace(_DECIMAL_COMMA, "${1}.${2}"))
        return lazy

    def _check_names(self, names: list[str]) -> None:
        problems = Problems()
        for number, name in enumerate(names, start=1):
            if not name.strip():
                problems.append(f"Column {number} of {self.name} has no name; give it one.")
            elif names[: number - 1].count(name) == 1:
                problems.append(
                    f"{self.name} has two columns named {quoted(name)}; rename one of them."
                )
        problems.settle()

    def _unreadable(self, error: BaseException) -> TableError:
        reason = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        return TableError(f"{self.name} cannot be read: {reason}.")


@contextlib.contextmanager
def open_table(path: str | os.PathLike[str], dialect: Dialect | None = None) -> Iterator[TableFile]:
    """Find out what a file is, and make it ready to be read.

    Text compressed with gzip, in another encoding than UTF-8, or from standard input (``-``) is
    copied to a temporary file first, so that memory does not grow with it.

    Args:
        path: of a ``.csv``, ``.tsv``, ``.txt`` or ``.parquet`` file, the first three also with
            ``.gz`` after it; ``-`` is standard input, text or Parquet.
        dialect: what is known of a text file; the rest is found out.

    Raises:
        TableError: no such file, of another kind, damaged, or empty.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_bytes("größe;y\\n1,5;2\\n".encode("latin-1"))
    ...     with open_table(Path(folder, "t.csv")) as table:
    ...         table.remark, table.read().to_dicts()
    ('separated by semicolon, decimal comma, encoding cp1252', [{'größe': '1.5', 'y': '2'}])
    """
    given, usual = dialect or Dialect(), _usual_separator(Path(path))
    name = "standard input" if str(path) == STANDARD_INPUT else str(path)
    with tempfile.TemporaryDirectory(prefix="deepwishart-") as folder:
        file = Path(path)
        if str(path) == STANDARD_INPUT:
            file = _copy(sys.stdin.buffer, Path(folder, "input"))
        if file.stat().st_size == 0:
            raise TableError(f"{name} is empty.")
        if os.fsdecode(file) != os.fsencode(file).decode(errors="replace"):  # polars wants UTF-8
            with open(file, "rb") as start:
                file = _copy(start, Path(folder, "input"))
        with open(file, "rb") as start:
            magic = start.read(4)
        try:
            if magic.startswith(_GZIP):
                file = _unpack(file, Path(folder, "unpacked"))
                with open(file, "rb") as start:
                    magic = start.read(4)
            if not usual or (str(path) == STANDARD_INPUT and magic == _PARQUET):
                _check_parquet(file, name)
                yield TableFile(name, file, None, "")
                return
            found = find_dialect(file, given, usual)
            encoding = codecs.lookup(found.encoding or "utf-8").name
            if encoding not in ("utf-8", "ascii"):
                with open(file, encoding=encoding, newline="") as text:
                    file = _copy(text, Path(folder, "text"), "w", encoding="utf-8", newline="")
        except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeError) as error:
            raise TableError(f"{name} cannot be read: {str(error).rstrip('.')}.") from error
        plain = (found.separator, found.decimal, encoding) == (usual, ".", "utf-8")
        yield TableFile(name, file, found, "" if plain else str(found))


def _usual_separator(file: Path) -> str:
    """That of the name's ending, nothing for Parquet; refuses what is no file that can be read."""
    if str(file) == STANDARD_INPUT:
        return ","
    if not file.is_file():
        kind = "is a directory" if file.is_dir() else "does not exist"
        if file.exists() and not file.is_dir():
            kind = (
                "is a pipe or a device; give a regular file, or send it to standard input, whose "
                "name is -"
            )
        raise TableError(f"The data file {file} {kind}.")
    suffix = file.with_suffix("").suffix if file.suffix.lower() == ".gz" else file.suffix
    usual = _SUFFIXES.get(suffix.lower())
    if usual is None:
        raise TableError(
            f"{file} is of a kind that cannot be read; give a file whose name ends in "
            f"{', '.join(_SUFFIXES)}, text also with .gz after it."
        )
    return usual


def _memory() -> int:
    """Bytes of memory of this machine; any number where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):
        return 2**40


def _unpack(file: Path, to: Path) -> Path:
    most = max(_UNPACKED_ANYWAY, _MOST_TIMES * file.stat().st_size)
    with gzip.open(file) as packed, open(to, "wb") as target:
        while block := packed.read(2**20):
            if target.write(block) and target.tell() > most:
                raise TableError(
                    f"{file} unpacks to more than {_MOST_TIMES} times its size, which no table "
                    "does; unpack it first if it is one."
                )
    return to


def _copy(source: Any, to: Path, mode: str = "wb", **options: Any) -> Path:
    with open(to, mode, **options) as target:
        shutil.copyfileobj(source, target)
    return to


def _check_parquet(file: Path, name: str) -> None:
    """Decode a file in a process that can be spared: some damage makes polars panic, which prints
    a page about threads, and some would end the process."""
    # -P: a module of that name in the working directory is not to be imported.
    command = [sys.executable, "-P", "-c", _DECODE, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        reason = next(iter(done.stdout.splitlines()), "it is damaged").rstrip(".")
        raise TableError(f"{name} cannot be read: {reason}.")
