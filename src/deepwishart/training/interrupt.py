"""Ctrl-C without a half-finished step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """While active, Ctrl-C only adds to the given list, so that a step can be finished first.

    A second Ctrl-C raises :class:`KeyboardInterrupt` at once, as usual. Nothing changes outside
    the main thread, or where the program handles or ignores the signal itself.

    >>> with interrupts_noted() as interrupts:
    ...     interrupts
    []
    """
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if noted:
            signal.default_int_handler(number, frame)
        noted.append(number)

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ours = usual and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
