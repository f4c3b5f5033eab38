"""Parquet files are decoded first by a process that can be spared."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from deepwishart.tables.problems import TableError

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


def check_parquet(file: Path, name: str) -> None:
    """Raise :class:`~deepwishart.tables.TableError` if the file cannot be decoded; errors call it
    ``name``.

    Some damage makes polars panic, which prints a page about threads, and some would end the
    process: the other process, which knows nothing but polars.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.parquet").write_text("PAR1")
    ...     check_parquet(Path(folder, "t.parquet"), "table")
    Traceback (most recent call last):
    ...
    deepwishart.tables.problems.TableError: table cannot be read: ...
    """
    # -P: a module of that name in the working directory is not to be imported.
    command = [sys.executable, "-P", "-c", _DECODE, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        reason = next(iter(done.stdout.splitlines()), "it is damaged").rstrip(".")
        raise TableError(f"{name} cannot be read: {reason}.")
