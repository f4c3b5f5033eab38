"""The command line in this process, as a terminal sees it; everything that it imports is here."""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

import deepwishart.cli.directory
import deepwishart.cli.fitting
import deepwishart.reproduction.sweeps  # noqa: F401
from deepwishart.cli import app
from stress.cases import Failed

__all__ = ["Ended", "check_predictions", "command", "judge"]

_PROGRAM = typer.main.get_command(app)  # takes longer than to refuse a table
_BAD_WORDS = re.compile(r"Traceback|panicked at|RuntimeError|Segmentation|core dumped")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LONGEST_MESSAGE = 8000  # a screenful of problems, of which each may quote several names


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
            code = run_program([str(each) for each in arguments])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return Ended(code, *texts)


def run_program(words: list[str]) -> int:
    """The exit code of ``deepwishart`` with these words, -1 after a traceback."""
    try:
        _PROGRAM(words, prog_name="deepwishart")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return -1
    return 0


def judge(ended: Ended) -> str:
    """``"accepted"`` or ``"refused"``; ``Failed`` for what a user must never see."""
    if found := _BAD_WORDS.search(ended.err + ended.out):
        raise Failed(f"{found[0]!r} in the output: {ended.err[-1500:]}")
    if ended.code not in (0, 1, 2):
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
    for value in ",".join(lines).split(","):
        try:
            finite = math.isfinite(float(value))
        except ValueError:
            continue  # the name of a class
        if not finite:
            raise Failed(f"{value} predicted at exit code 0")


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
