"""Names that people type: hints for misspelt ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["suggest", "unknown"]


def suggest(name: object, choices: Iterable[str], cutoff: float = 0.3) -> str:
    """ " Did you mean ...?", or nothing; upper and lower case are the same.

    >>> suggest("prise", ["price", "rooms"])
    " Did you mean 'price'?"
    """
    known = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=cutoff)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


def unknown(what: str, name: object, choices: Iterable[str]) -> str:
    """What to say of a name that is not among the choices.

    >>> unknown("process", "dpw", ["dwp", "dsvi"])
    "Unknown process 'dpw'; choose from dwp, dsvi. Did you mean 'dwp'?"
    """
    names = list(choices)
    return f"Unknown {what} {name!r}; choose from {', '.join(names)}.{suggest(name, names)}"
