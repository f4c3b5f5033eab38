"""Names that people type: hints for misspelt ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggest(name: object, choices: Iterable[str], cutoff: float = 0.3) -> str:
    """ " Did you mean ...?", or nothing; upper and lower case are the same.

    >>> suggest("prise", ["price", "rooms"])
    " Did you mean 'price'?"
    """
    known = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=cutoff)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


def check_choice(what: str, name: object, choices: Iterable[str]) -> None:
    """Raise ``ValueError`` unless the name is among the choices, with the closest one as a hint.

    >>> check_choice("process", "dpw", ["dwp", "dsvi"])
    Traceback (most recent call last):
    ...
    ValueError: Unknown process 'dpw'; choose from dwp, dsvi. Did you mean 'dwp'?
    """
    names = list(choices)
    if not isinstance(name, str) or name not in names:
        raise ValueError(unknown(what, name, names))


def unknown(what: str, name: object, choices: Iterable[str]) -> str:
    """What to say of a name that is not among the choices."""
    names = list(choices)
    return f"Unknown {what} {name!r:.60}; choose from {', '.join(names)}.{suggest(name, names)}"
