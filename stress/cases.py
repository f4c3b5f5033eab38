"""Cases: what was tried, and how it ended."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

__all__ = ["Failed", "Outcome", "Suite", "seeded"]


class Failed(Exception):
    """What must not happen has happened; the message says what."""


@dataclass(frozen=True)
class Outcome:
    """A case that ended as it may: ``what`` was tried, how it ``ended``, and what to count."""

    what: str
    ended: str  # "accepted", "refused" or "recovered"
    counts: dict[str, int] = field(default_factory=dict)


class Suite(Protocol):
    """Cases of one kind, all made from material in one folder."""

    def __init__(self, folder: Path) -> None:
        """Make the material, unless it is there."""

    def run(self, rng: random.Random, folder: Path) -> Outcome:
        """Make one case in an empty folder and try it; raises ``Failed``."""
        ...


def seeded(kind: str, seed: int, number: int) -> random.Random:
    """Randomness of one case; Python promises the same numbers for the same text.

    >>> seeded("tables", 0, 1).random() == seeded("tables", 0, 1).random()
    True
    """
    return random.Random(f"{kind}/{seed}/{number}")
