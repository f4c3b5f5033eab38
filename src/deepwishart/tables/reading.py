"""CSV and Parquet files, whole or in batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from polars.exceptions import NoDataError, PanicException, PolarsError

from deepwishart.tables.columns import TableError, quoted
from deepwishart.tables.parquet import check_parquet

__all__ = ["read_table", "stream_table"]

# A damaged Parquet file can make polars panic, which is not even an Exception to Python.
_UNREADABLE = (PolarsError, PanicException)
_SUFFIXES = {".csv": ",", ".tsv": "\t", ".parquet": ""}


def read_table(path: str | os.PathLike[str]) -> pl.DataFrame:
    """A CSV (``.csv``), tab-separated (``.tsv``) or Parquet (``.parquet``) file, read whole.

    The columns of a text file stay text: :class:`~deepwishart.tables.TableEncoder` decides what
    they are, from all rows and in the same way for every file.

    Raises:
        TableError: no such file, of another kind, damaged, or without rows.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text("x,colour\\n1,red\\n2,blue\\n")
    ...     read_table(Path(folder, "t.csv")).shape
    (2, 2)
    """
    return pl.concat(stream_table(path), rechunk=True)


def stream_table(path: str | os.PathLike[str], batch_rows: int = 8192) -> Iterator[pl.DataFrame]:
    """As :func:`read_table`, in batches of at most ``batch_rows`` rows and in order.

    Memory does not grow with the length of the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "table.csv"
    ...     _ = path.write_text("x\\n1\\n2\\n3\\n")
    ...     [len(batch) for batch in stream_table(path, batch_rows=2)]
    [2, 1]
    """
    file = Path(path)
    lazy = _scan(file)
    found = False
    try:
        for frame in lazy.collect_batches(chunk_size=batch_rows, maintain_order=True, lazy=True):
            for batch in frame.iter_slices(batch_rows):
                found = True
                yield batch
    except _UNREADABLE as error:
        raise _unreadable(file, error) from error
    if not found:
        raise TableError(f"{file} has column names but no rows.")


def _scan(file: Path) -> pl.LazyFrame:
    if not file.is_file():
        kind = "is a directory" if file.is_dir() else "does not exist"
        if file.exists() and not file.is_dir():
            kind = "is a pipe or a device, which cannot be read twice; give a regular file"
        raise TableError(f"The data file {file} {kind}.")
    separator = _SUFFIXES.get(file.suffix.lower())
    if separator is None:
        raise TableError(
            f"{file} is of a kind that cannot be read; give a file whose name ends in "
            f"{', '.join(_SUFFIXES)}."
        )
    if file.stat().st_size == 0:
        raise TableError(f"{file} is empty.")
    if not separator:
        check_parquet(file)
    text = {"separator": separator, "infer_schema": False, "glob": False}
    try:
        lazy = pl.scan_csv(file, **text) if separator else pl.scan_parquet(file, glob=False)  # type: ignore[arg-type]
        names = lazy.collect_schema().names()
        if separator:
            # The names as they are: polars calls the second of two columns x_duplicated_0.
            head = pl.scan_csv(file, **text, has_header=False, n_rows=1)  # type: ignore[arg-type]
            written = [name or "" for name in head.collect().row(0)]
            names = written if len(written) == len(names) else names
    except NoDataError as error:
        raise TableError(f"{file} is empty.") from error
    except (*_UNREADABLE, OSError) as error:
        raise _unreadable(file, error) from error
    for number, name in enumerate(names, start=1):
        if not name.strip():
            raise TableError(f"Column {number} of {file} has no name; give it one.")
        if name in names[: number - 1]:
            raise TableError(f"{file} has two columns named {quoted(name)}; rename one of them.")
    return lazy


def _unreadable(file: Path, error: BaseException) -> TableError:
    reason = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
    return TableError(f"{file} cannot be read: {reason}.")
