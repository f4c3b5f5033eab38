"""What compiled operations return, said without computing it: shapes and dtypes.

``torch.compile`` and fake tensors ask for it. An operation's file states it beside the operation.
It is registered with PyTorch when its compiler is in use, and not before: registering imports a
computer algebra system, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["fake", "fake_like", "register_all"]

Fake = Callable[..., Any]
_waiting: dict[str, Fake] = {}


def fake(name: str) -> Callable[[Fake], Fake]:
    """Mark a function as the fake implementation of the operation called ``name``."""

    def keep(function: Fake) -> Fake:
        _waiting[name] = function
        return function

    return keep


def fake_like(name: str, *positions: int) -> None:
    """An operation whose results look like its arguments at these positions: most gradients do."""

    def results(*arguments: Any) -> Any:
        found = tuple(torch.empty_like(arguments[position]) for position in positions)
        return found if len(found) > 1 else found[0]

    _waiting[name] = results


def register_all() -> None:
    """Register what was marked since the last time; the operations have to exist."""
    while _waiting:
        name, function = _waiting.popitem()
        torch.library.register_fake(f"deepwishart::{name}", function)
