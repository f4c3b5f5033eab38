"""Parts that are broken in one place, for tests that a check can fail."""

from collections.abc import Callable
from typing import Any


def broken(kind: type, **changes: Callable[..., Any]) -> type:
    """A subclass with methods that call ``change(self, parent, ...)``, where ``parent`` is the
    method of the parent.

    >>> loud = broken(str, upper=lambda self, parent: parent() + "!")
    >>> loud("hi").upper()
    'HI!'
    """
    made: type

    def method(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(self: Any, *arguments: Any, **options: Any) -> Any:
            return change(self, getattr(super(made, self), name), *arguments, **options)

        return changed

    made = type("Broken", (kind,), {name: method(name, each) for name, each in changes.items()})
    return made
