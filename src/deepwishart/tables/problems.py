"""What is wrong with a table, all of it in one message."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 60


class TableError(ValueError):
    """A table that cannot be used; the message names the columns and says what to do, in a sentence
    or two for each of its problems."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        numbered = (f"({number}) {problem}" for number, problem in enumerate(problems, start=1))
        several = f"There are {len(problems)} problems: {' '.join(numbered)}"
        super().__init__(problems[0] if len(problems) == 1 else several)


class Problems(list[str]):
    """A list that the errors of a ``with`` block go to, so that the next block is tried as well.

    >>> problems = Problems()
    >>> for name in ("x", "y"):
    ...     with problems:
    ...         raise TableError(f"Column {name!r} is empty.")
    >>> problems.settle()
    Traceback (most recent call last):
    deepwishart.tables.problems.TableError: There are 2 problems: (1) Column 'x' is empty. (2) ...
    """

    def __enter__(self) -> Problems:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        if isinstance(error, TableError):
            self += [problem for problem in error.problems if problem not in self]
            return True
        return False

    def settle(self) -> None:
        """Raise :class:`TableError` if there are any."""
        if self:
            raise TableError(*self)


def quoted(value: object) -> str:
    r"""A name or value from a table as messages show it: on one line, and not for ever.

    >>> quoted("a\nb"), len(quoted("x" * 1000))
    ("'a\\nb'", 65)
    """
    text = repr(str(value))
    return text if len(text) <= _LONGEST + 2 else f"{text[: _LONGEST + 1]}...{text[0]}"


def listing(names: Iterable[str], most: int = 8) -> str:
    """The first few names, and how many more there are."""
    every = list(names)
    shown = ", ".join(quoted(name)[1:-1] for name in every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"
