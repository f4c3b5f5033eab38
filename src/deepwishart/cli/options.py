"""Options that several commands have, lists as in ``--quantiles 0.05 0.5 0.95``, and options that
take seconds to import."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand

from deepwishart.cli.errors import name_options, note

if TYPE_CHECKING:
    from deepwishart.tables import TableFile

KINDS = ".csv, .tsv, .txt (also .gz) or .parquet; - is standard input."
Belongs = Callable[[str], bool]


def _reading(help: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Data", show_default=False, **more)


Separator = Annotated[
    str | None,
    _reading("Between columns: a character, comma, semicolon, tab or bar; found out by default."),
]
Decimal = Annotated[
    str | None, _reading("Decimal mark, . or a comma; found out by default.", metavar=".|,")
]
Encoding = Annotated[
    str | None, _reading("Such as utf-8, latin-1 or utf-16; found out by default.")
]
ModelPath = Annotated[Path, typer.Argument(help="Directory that deepwishart fit wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read.")]


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


def is_number(token: str) -> bool:
    """A number, or several with commas between them.

    >>> is_number("0.5"), is_number("0.05,0.95"), is_number("new.csv")
    (True, True, False)
    """
    try:
        return bool([float(part) for part in token.split(",")])
    except ValueError:
        return False


def is_word(token: str) -> bool:
    """Anything but an option; ``-999`` is none."""
    return not token.startswith("-") or is_number(token)


def spread(tokens: list[str], options: Mapping[str, Belongs]) -> list[str]:
    """Repeat an option before each of its values, which is how the parser wants them; ``options``
    say which of the tokens after them belong to them.

    >>> spread(["m", "--quantiles", "0.1", "0.9", "new.csv"], {"--quantiles": is_number})
    ['m', '--quantiles', '0.1', '--quantiles', '0.9', 'new.csv']
    >>> spread(["--depths", "2,3", "--out", "x"], {"--depths": is_number})
    ['--depths', '2', '--depths', '3', '--out', 'x']
    """
    result: list[str] = []
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        name, equals, value = token.partition("=")
        if name not in options:
            result.append(token)
            continue
        values = value.split(",") if equals else []
        while rest and options[name](rest[0]):
            values += rest.pop(0).split(",")
        # An option without values stays, for the parser to complain about.
        result += [part for one in values for part in (name, one)] or [name]
    return result


class ListCommand(TyperCommand):
    """A command some of whose options, ``lists``, take several values in a row."""

    lists: ClassVar[Mapping[str, Belongs]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread(args, self.lists))


def taking_lists(*words: str, numbers: tuple[str, ...] = ()) -> type[ListCommand]:
    """A command class, for ``@app.command(cls=...)``, with these lists."""
    lists = {**dict.fromkeys(words, is_word), **dict.fromkeys(numbers, is_number)}
    return type("Command", (ListCommand,), {"lists": lists})


def flags(command: Any) -> dict[str, str]:
    """The options of a command by the names of its parameters."""
    return {each.name: each.opts[0] for each in command.params}


class ModelCommand(ListCommand):
    """A command with options besides its own that take seconds to import: they are made when it is
    run or asked for help, and it finds their values, ``None`` where none is given, in
    ``context.obj``."""

    made: tuple[Any, ...] = ()

    def make_options(self) -> list[Any]:
        """The options."""
        raise NotImplementedError

    def get_params(self, ctx: Any) -> list[Any]:
        if not self.made:
            self.made = tuple(self.make_options())
            self.params = [*self.params, *self.made]
        return super().get_params(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # As other commands call it; in help, both names are too wide for a terminal.
        inducing = re.compile("^--inducing(?==|$)")
        return super().parse_args(ctx, [inducing.sub("--num-inducing", each) for each in args])

    def invoke(self, ctx: Any) -> Any:
        ctx.obj = {option.name: ctx.params.pop(option.name) for option in self.made}
        try:
            return super().invoke(ctx)
        except ValueError as error:
            if not hasattr(error, "problems"):  # of a table, whose columns may have any name
                error.args = (name_options(error, flags(self)),)
            raise
