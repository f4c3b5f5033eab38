"""The command line in this process, as a terminal sees it."""

from __future__ import annotations

import functools
import math
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stress.cases import Failed

__all__ = ["Ended", "check_predictions", "command", "judge"]

_EXPECTED = {0, 1, 2}
_BAD_WORDS = re.compile(r"Traceback|panicked at|RuntimeError|Segmentation|core dumped")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LONGEST_MESSAGE = 4000


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


def command(*arguments: object) -> Ended:
    """Run ``deepwishart`` with these arguments; output of native code is caught as well."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with _redirected(1, out.fileno()), _redirected(2, err.fileno()):
            try:
                _program()([str(each) for each in arguments], prog_name="deepwishart")
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else int(end.code is not None)
            except BaseException:
                traceback.print_exc()
                code = -1
        return Ended(code, *(_content(file) for file in (out, err)))


def judge(ended: Ended) -> str:
    """``"accepted"`` or ``"refused"``; ``Failed`` for what a user must never see."""
    if found := _BAD_WORDS.search(ended.err + ended.out):
        raise Failed(f"{found[0]!r} in the output: {ended.err[-1500:]}")
    if ended.code not in _EXPECTED:
        raise Failed(f"exit code {ended.code}: {ended.err[-500:]}")
    if ended.code and not ended.err.strip():
        raise Failed(f"exit code {ended.code} without a word")
    if len(ended.err) > _LONGEST_MESSAGE or _CONTROL.search(ended.err):
        raise Failed(f"a message for no terminal: {ended.err[:500]!r}")
    return "refused" if ended.code else "accepted"


def check_predictions(text: str, num_rows: int | None = None) -> None:
    """Refuse a table of predictions that has other than finite numbers, or too few rows."""
    lines = text.split("\n")[1:-1]
    if num_rows is not None and len(lines) != num_rows:
        raise Failed(f"{len(lines)} predictions for {num_rows} rows, at exit code 0")
    for line in lines:
        for value in line.split(","):
            try:
                finite = math.isfinite(float(value))
            except ValueError:
                continue  # the name of a class
            if not finite:
                raise Failed(f"{value} predicted at exit code 0")


@functools.cache
def _program() -> Any:
    """The commands, put together once: that takes longer than to refuse a table."""
    import typer

    from deepwishart.cli import app

    return typer.main.get_command(app)


@contextmanager
def _redirected(descriptor: int, into: int) -> Iterator[None]:
    sys.stdout.flush()
    sys.stderr.flush()
    before = os.dup(descriptor)
    os.dup2(into, descriptor)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(before, descriptor)
        os.close(before)


def _content(file: tempfile._TemporaryFileWrapper) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
