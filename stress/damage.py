"""Damage to the bytes of a file."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["BYTES", "damage_bytes"]


def _flip_bits(data: bytes, rng: random.Random) -> bytes:
    """Anywhere, or where headers and footers are."""
    reach = rng.choice((len(data), 16, 64, 400))
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        place = rng.randrange(min(reach, len(data)))
        changed[place if rng.random() < 0.4 else -1 - place] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    length = min(len(data) - start, rng.choice((1, 4, 8, 64, 512)))
    new = rng.choice((bytes(length), b"\xff" * length, rng.randbytes(length)))
    return data[:start] + new + data[start + length :]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    piece = data[start : start + rng.choice((1, 8, 100, 4096))]
    return data[:start] + piece * rng.choice((2, 3, 50)) + data[start:]


def _insert(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + rng.randbytes(rng.choice((1, 3, 50))) + data[start:]


def _cut_out(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.choice((1, 2, 7, 100)) :]


def _swap_halves(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[start:] + data[:start]


BYTES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "truncated": lambda data, rng: data[: rng.randrange(len(data) + 1)],
    "without its front": lambda data, rng: data[rng.randrange(len(data) + 1) :],
    "bits flipped": _flip_bits,
    "overwritten": _overwrite,
    "cut": _cut_out,
    "repeated": _repeat,
    "with insertions": _insert,
    "swapped": _swap_halves,
    "noise": lambda data, rng: rng.randbytes(rng.choice((1, 10, 1000))),
    "empty": lambda data, rng: b"",
}


def damage_bytes(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Some damage, and what it is called.

    >>> damage_bytes(b"abc", random.Random(3))
    ('overwritten', b'ab\xff')
    """
    name = rng.choice((*BYTES, "bits flipped", "bits flipped"))
    return name, BYTES[name](data, rng) if data else b""
