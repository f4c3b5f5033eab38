"""Arguments as they arrive: names, numbers, generators and tensors, or one sentence about them."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

_MOST = 2**31 - 1
_LONGEST = 60


def whole_number(name: str, value: Any, least: int = 1, also: str = "", most: int = _MOST) -> int:
    """An integer from ``least`` to ``most``; ``ValueError`` otherwise, which says what the argument
    may ``also`` be."""
    try:
        found = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except Exception:  # the types of others raise what they like
        found = None
    if found is not None and found > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(value)}.")
    if found is None or found < least:
        raise ValueError(
            f"{name} must be {also}an integer of at least {least}, got {shown(value)}."
        )
    return found


def number(
    name: str, value: Any, low: float = 0.0, high: float = math.inf, also: str = ""
) -> float:
    """A number strictly between two others; ``ValueError`` otherwise."""
    try:
        # float() reads text, and warns about complex numbers.
        wrong = isinstance(value, str | bytes | bytearray | bool | np.bool_ | np.complexfloating)
        found = math.nan if wrong else float(value)
    except Exception:  # the types of others raise what they like
        found = math.nan
    if not low < found < high:
        wanted = f"strictly between {low:g} and {high:g}"
        if high == math.inf:
            wanted = "a positive number" if low == 0 else "a finite number"
        raise ValueError(f"{name} must be {also}{wanted}, got {shown(value)}.")
    return found


def probabilities(name: str, values: Any) -> np.ndarray:
    """One probability or a vector of them, strictly between 0 and 1; ``ValueError`` otherwise."""
    found = tensor(name, values).to(torch.float64).cpu().numpy()
    if found.ndim > 1 or not found.size or not bool(((found > 0) & (found < 1)).all()):
        raise ValueError(
            f"{name} must be one or several probabilities strictly between 0 and 1, got "
            f"{shown(values)}."
        )
    return found


def check_generator(generator: Any) -> None:
    """Raise ``ValueError`` unless it is a generator of PyTorch's, or ``None``."""
    if not isinstance(generator, torch.Generator | None):
        raise ValueError(
            f"generator must be a torch.Generator or None, got {shown(generator)}; to have the "
            "same numbers every time, pass torch.Generator().manual_seed(0)."
        )


def tensor(name: str, values: Any) -> Tensor:
    """Real numbers as an ordinary tensor without gradient; ``ValueError`` for anything else.

    Tensors stay where they are; arrays, lists and data frames are copied.
    """
    if isinstance(values, Tensor):
        plain = values.layout == torch.strided and not (values.is_nested or values.is_meta)
        if not plain or values.is_quantized or values.is_complex():
            raise ValueError(
                f"{name} must be an ordinary tensor of real numbers, got one of type "
                f"{values.dtype}, {values.layout} on {values.device}."
            )
        return values.detach()
    try:
        if values is None:  # which NumPy takes for NaN
            raise TypeError("None is no number")
        masked = isinstance(values, np.ma.MaskedArray)
        array = values.astype(np.float64).filled(np.nan) if masked else np.array(values)
        array = array.astype(np.float64) if array.dtype == object else array
        if array.dtype.kind not in "biuf":
            raise ValueError(f"they are of type {array.dtype}")
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
    except Exception as error:  # the types of others raise what they like
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"{name} must hold real numbers, got {shown(values)}: {reason.rstrip('.')}."
        ) from None


def shown(value: Any) -> str:
    """A value as messages show it: on one line, and not for ever.

    >>> shown("x"), len(shown(10**5000)) < 70
    ("'x'", True)
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer of thousands of digits, or what the types of others raise
        return f"this {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def resolve_device(device: str | torch.device) -> torch.device:
    """The device to compute on: a GPU for ``"auto"`` where PyTorch has one, else the CPU."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            "device must be 'auto', 'cpu' or a device that PyTorch has here, such as 'cuda:0'; "
            f"got {shown(device)} ({reason})."
        ) from None
    return found


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
