"""What compiled operations return, said without computing it: shapes and dtypes.

``torch.compile`` and fake tensors ask for it. An operation's file states it beside the operation;
it is registered with PyTorch once the library is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["fake", "register_all"]

Fake = Callable[..., Any]
_waiting: dict[str, Fake] = {}
_loaded = False


def fake(name: str) -> Callable[[Fake], Fake]:
    """Mark a function as the fake implementation of the operation called ``name``."""

    def keep(function: Fake) -> Fake:
        _waiting[name] = function
        if _loaded:
            register_all()
        return function

    return keep


def register_all() -> None:
    """Register what was marked; to be called when the operations exist."""
    global _loaded
    _loaded = True
    while _waiting:
        name, function = _waiting.popitem()
        torch.library.register_fake(f"deepwishart::{name}", function)
