"""Arguments and options that are the same for every command that has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepwishart.cli.errors import note

if TYPE_CHECKING:
    from deepwishart.tables import TableFile

__all__ = ["AsJson", "Decimal", "Encoding", "ModelPath", "Separator", "opened"]

KINDS = ".csv, .tsv, .txt (also .gz) or .parquet; - is standard input."


def _option(help: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Data", show_default=False, **more)


Separator = Annotated[
    str | None,
    _option("Between columns: a character, comma, semicolon, tab or bar; found out by default."),
]
Decimal = Annotated[
    str | None, _option("Decimal mark, . or a comma; found out by default.", metavar=".|,")
]
ModelPath = Annotated[Path, typer.Argument(help="Directory that deepwishart fit wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read.")]
Encoding = Annotated[str | None, _option("Such as utf-8, latin-1 or utf-16; found out by default.")]


@contextmanager
def opened(
    data: Path,
    separator: str | None,
    decimal: str | None,
    encoding: str | None,
    *,
    quiet: bool = False,
) -> Iterator[TableFile]:
    """A table, with one line about what was found out of it."""
    from deepwishart.tables import Dialect, open_table

    with open_table(data, Dialect(separator, decimal, encoding)) as table:
        if table.remark and not quiet:
            note(f"{table.name}: {table.remark} (--separator, --decimal, --encoding change that)")
        yield table
