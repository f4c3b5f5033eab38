"""Options that take several values in a row, as in ``--quantiles 0.05 0.5 0.95``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from typer.core import TyperCommand

__all__ = [
    *("ListCommand", "completing", "is_number", "is_word", "is_word_or_number", "spread"),
    "taking_lists",
]

Belongs = Callable[[str], bool]


def completing(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Names that a shell offers for a value, for ``typer.Option(autocompletion=...)``.

    >>> completing(["dwp", "dgp", "matern52"])("d")
    ['dwp', 'dgp']
    """
    known = tuple(names)
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


def is_word(token: str) -> bool:
    """Anything but an option."""
    return not token.startswith("-")


def is_number(token: str) -> bool:
    """A number, or several with commas between them.

    >>> is_number("0.5"), is_number("0.05,0.95"), is_number("new.csv")
    (True, True, False)
    """
    try:
        return bool([float(part) for part in token.split(",")])
    except ValueError:
        return False


def is_word_or_number(token: str) -> bool:
    """Anything but an option; ``-999`` is none."""
    return is_word(token) or is_number(token)


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
    """A command some of whose options, ``lists``, take several values in a row; ``also`` has other
    names that options go by."""

    lists: ClassVar[Mapping[str, Belongs]] = {}
    also: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        parts = (token.partition("=") for token in args)
        renamed = [self.also.get(name, name) + equals + value for name, equals, value in parts]
        return super().parse_args(ctx, spread(renamed, self.lists))


def taking_lists(
    lists: Mapping[str, Belongs], also: Mapping[str, str] | None = None
) -> type[ListCommand]:
    """A command class, for ``@app.command(cls=...)``, with these lists and other names."""
    return type("Command", (ListCommand,), {"lists": lists, "also": also or {}})
