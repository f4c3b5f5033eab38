"""Errors as a command line shows them: one line on standard error, or one for each problem of a
table, and an exit code.

====  ==========================================================================================
0     success
1     training failed; the message says where the last good state is
2     wrong usage or bad input
130   interrupted with Ctrl-C
====  ==========================================================================================
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

from deepwishart._support.files import printable

if TYPE_CHECKING:
    import polars as pl

FAILURE, BAD_INPUT, INTERRUPTED = 1, 2, 130
_SCREENFUL = 20
_FORMULA = re.compile(r"[=@\t\r].|[+-](?![\d.eE+-]*$)", re.DOTALL)


class CommandError(Exception):
    """Ends a command with a message and an exit code, see the module's description."""

    def __init__(self, message: str, exit_code: int = BAD_INPUT) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class FriendlyGroup(TyperGroup):
    """Commands whose expected errors come out as one line.

    Expected are wrong usage, :class:`CommandError`, ``ValueError`` (what the library raises for
    arguments and data that cannot be used), ``OSError``, a matrix that cannot be factorised, and
    too little memory. Anything else is a bug, and keeps its traceback, as do all errors when the
    environment variable ``DEEPWISHART_TRACEBACK`` is set.
    """

    def main(self, *args: Any, **more: Any) -> Any:
        if not more.get("standalone_mode", True) or os.environ.get("DEEPWISHART_TRACEBACK"):
            return super().main(*args, **more)
        message, code = "interrupted", INTERRUPTED
        problems: Sequence[str] = ()
        try:
            result = super().main(*args, **more | {"standalone_mode": False})
            if result != INTERRUPTED:
                sys.exit(result if isinstance(result, int) else 0)
        except Exception as error:
            message = _explain(error)
            code = error.exit_code if isinstance(error, CommandError) else BAD_INPUT
            problems = getattr(error, "problems", ())
            if not message:
                raise
        if len(problems) < 2:
            note(message)
        else:
            note(message.partition("(1) ")[0])
            for number, problem in enumerate(problems[:_SCREENFUL], start=1):
                note(f"({number}) {problem}")
            if len(problems) > _SCREENFUL:
                note(f"... and {len(problems) - _SCREENFUL} more.")
        sys.exit(code)


def note(message: str) -> None:
    """One line on standard error."""
    print(f"deepwishart: {printable(message)}", file=sys.stderr)


def note_formulas(*tables: pl.DataFrame) -> bool:
    """Whether a spreadsheet would take a name or a text in the tables for a formula, and a line
    about it."""
    import polars as pl

    for table in tables:
        columns = [values for values in table.get_columns() if values.dtype.is_(pl.String)]
        for text in (*table.columns, *(each for values in columns for each in values.unique())):
            if text is not None and _FORMULA.match(text):
                note(
                    f"warning: {printable(text, 60)!r} looks like a formula, which spreadsheets "
                    "that open the file may compute; import such columns as text"
                )
                return True
    return False


def name_options(message: object, options: Mapping[str, str]) -> str:
    """What the library says of its parameters, with the options that they are on the command line.

    >>> options = {"max_iter": "--max-iter", "depth": "--depth"}
    >>> name_options("depth must be 'auto' or more. Use depth=1, increase max_iter.", options)
    "--depth must be 'auto' or more. Use --depth 1, increase --max-iter."
    """

    def spell(found: re.Match[str]) -> str:
        name, text, value, demand = found.groups()
        if text is not None or value is not None:
            return f"{options[name]} {shlex.quote(value if text is None else text)}{demand or ''}"
        # Without a value or a demand, most names are words of English.
        return f"{options[name]}{demand or ''}" if demand or "_" in name else found[0]

    names = "|".join(options)
    # An option that is not given is None, objects cannot be given, and quotes are somebody's words.
    pattern = rf"(?<!')\b({names})\b(?:=(?!True)(?:'([^']*)'|([\w.-]*\w)))?( must be)?(?: None or)?"
    return re.sub(pattern, spell, str(message)) if options else str(message)


@contextmanager
def plain_warnings(
    ignore: str = r"(?!)", options: Mapping[str, str] = MappingProxyType({})
) -> Iterator[None]:
    """Warnings as one line each, without their place in the code, unless they match ``ignore``."""

    def show(message: Warning | str, *where: Any, **also: Any) -> None:
        note(f"warning: {name_options(message, options)}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", message=ignore)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.showwarning = show
        yield


def _explain(error: Exception) -> str:
    """What to say of an error that is no bug; nothing of one that is."""
    if isinstance(error, CommandError | ValueError | OSError | FloatingPointError):
        return str(error)
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return f"There is not enough memory: {error}"
    linalg = sys.modules.get("deepwishart.numerics.linalg")  # torch is not to be imported for this
    if linalg is not None and isinstance(error, linalg.CholeskyError):
        return f"The model cannot be evaluated: {error}"
    # The parser's own errors; their class belongs to whichever click typer brings along.
    if not hasattr(error, "format_message"):
        return ""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "deepwishart"
    said = f"{error.format_message().replace('Value error, ', '').rstrip('.')}."
    if wrong := re.search(r"'([^']*)' is not one of (.*)", said):
        from deepwishart._support.arguments import suggest

        said += suggest(wrong[1], re.findall("'(.*?)'", wrong[2]))
    return f"{said} See '{path} --help'."
