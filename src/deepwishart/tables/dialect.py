"""How a text file writes a table: separator, decimal mark, encoding; found out, or given."""

from __future__ import annotations

import codecs
import csv
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from deepwishart.tables.problems import TableError

_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
_NAMES = {mark: name for name, mark in _SEPARATORS.items()}
_DECIMALS = {".": "point", ",": "comma"}
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_BLOCK = 2**20
_MOST_ROWS = 1000  # to look at
CURRENCY = "$€£¥"
# Around a number: signs and currency before it, a unit after it.
BEFORE, AFTER = rf"\s*[+-]?[{CURRENCY}]?\s?[+-]?", rf"\s*[{CURRENCY}%]?\s*"
_WHOLE = r"(?:[0-9]+|[0-9]{1,3}(?:\.[0-9]{3})+(?=,)|[0-9]{1,3}(?:,[0-9]{3})+(?=\.))"
_FRACTION = re.compile(rf"{BEFORE}{_WHOLE}([.,])[0-9]+(?:[eE][+-]?[0-9]+)?{AFTER}")


@dataclass(frozen=True)
class Dialect:
    """Separator, decimal mark and encoding; ``None`` is to be found out.

    Args:
        separator: one character, or ``comma``, ``semicolon``, ``tab``, ``bar``.
        decimal: ``.`` or ``,``.
        encoding: a name that Python knows.

    >>> Dialect(separator="tab").separator, str(Dialect(";", ",", "cp1252"))
    ('\\t', 'separated by semicolon, decimal comma, encoding cp1252')
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        mark = _SEPARATORS.get(self.separator or "", self.separator)
        mark = "\t" if mark == "\\t" else mark
        if mark is not None and (len(mark.encode()) != 1 or mark in '"\n\r'):
            raise TableError(
                f"The separator must be one character, or one of {', '.join(_SEPARATORS)}; got "
                f"{mark!r}."
            )
        object.__setattr__(self, "separator", mark)
        if self.decimal is not None and self.decimal not in _DECIMALS:
            raise TableError(f"The decimal mark must be '.' or ',', got {self.decimal!r}.")
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise TableError(
                f"There is no encoding {self.encoding!r}; try utf-8, cp1252 or utf-16."
            ) from None

    def __str__(self) -> str:
        separator, decimal = self.separator or "", self.decimal or ""
        words = [f"separated by {_NAMES.get(separator, repr(separator))}"]
        words += [f"decimal {_DECIMALS[decimal]}"] if decimal else []
        return ", ".join([*words, f"encoding {self.encoding}"])


def find_dialect(file: Path, given: Dialect, usual: str = ",") -> Dialect:
    """What a text file uses, apart from what is ``given``; ``usual`` is the separator where nothing
    speaks for another.

    The encoding is that of a byte order mark, UTF-8 if the whole file is valid UTF-8, and
    otherwise Windows-1252, which holds Latin-1. The separator is the one that divides the first
    rows into as many parts as the line of names. A decimal comma is looked for where commas do
    not separate.
    """
    encoding = given.encoding or _find_encoding(file)
    with open(file, "rb") as binary:
        head = codecs.getincrementaldecoder(encoding)("replace").decode(binary.read(_BLOCK))
    lines = head.splitlines(keepends=True)
    lines = lines[:-1] if len(head) >= _BLOCK // 4 and len(lines) > 1 else lines
    separator = given.separator or _find_separator(lines, usual)
    decimal = given.decimal
    if decimal is None:
        decimal = _find_decimal(lines, separator) if separator != "," else "."
    return Dialect(separator, decimal, encoding)


def _find_encoding(file: Path) -> str:
    with open(file, "rb") as binary:
        start = binary.read(4)
    for mark, name in _BOMS.items():
        if start.startswith(mark):
            return name
    for name in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError), open(file, encoding=name, newline="") as text:
            while text.read(_BLOCK):
                pass
            return name
    return "latin-1"


def _rows(lines: list[str], separator: str) -> list[list[str]]:
    rows: list[list[str]] = []
    with suppress(csv.Error):  # a field without end; what was read until then is enough
        rows.extend(islice(filter(None, csv.reader(lines, delimiter=separator)), _MOST_ROWS))
    return rows


def _find_separator(lines: list[str], usual: str) -> str:
    # csv.Sniffer takes the square of the length of a text with many quotation marks.
    best, most = usual, (0.0, 0)
    for mark in dict.fromkeys((usual, *_NAMES)):
        rows = _rows(lines, mark)
        width = len(rows[0]) if rows else 0
        alike = sum(len(row) == width for row in rows) / max(len(rows), 1)
        if width > 1 and (alike, width) > most:
            best, most = mark, (alike, width)
    return best


def _find_decimal(lines: list[str], separator: str) -> str:
    """The comma, if there are numbers with one and none with a point."""
    fields = (field for row in _rows(lines, separator)[1:] for field in row)
    marks = {found[1] for field in fields if (found := _FRACTION.fullmatch(field))}
    return "," if marks == {","} else "."
