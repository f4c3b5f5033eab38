"""Ctrl-C without a half-finished step."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["InterruptWatch"]


class InterruptWatch:
    """While active, Ctrl-C only sets :attr:`requested`, so that a step can be finished first.

    A second Ctrl-C raises :class:`KeyboardInterrupt` at once, as usual. Nothing changes outside
    the main thread, or where the program handles or ignores the signal itself.

    >>> with InterruptWatch() as watch:
    ...     watch.requested
    False
    """

    def __init__(self) -> None:
        self.requested = False
        self._installed = False

    def __enter__(self) -> InterruptWatch:
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if usual and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._note)
            self._installed = True
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._installed = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            signal.default_int_handler(number, frame)
        self.requested = True
