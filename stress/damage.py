"""Damage to the bytes of a file."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["BYTES", "damage_bytes"]


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _lose_the_front(data: bytes, rng: random.Random) -> bytes:
    return data[rng.randrange(len(data) + 1) :]


def _flip_bits(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _flip_bits_near_an_end(data: bytes, rng: random.Random) -> bytes:
    """Where headers and footers are."""
    reach = min(len(data), rng.choice((16, 64, 400)))
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 5))):
        place = rng.randrange(reach)
        changed[place if rng.random() < 0.4 else -1 - place] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    length = min(len(data) - start, rng.choice((1, 4, 8, 64, 512)))
    filler = rng.choice((b"\x00", b"\xff", None))
    new = rng.randbytes(length) if filler is None else filler * length
    return data[:start] + new + data[start + length :]


def _cut_out(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.choice((1, 2, 7, 100)) :]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    piece = data[start : start + rng.choice((1, 8, 100, 4096))]
    return data[:start] + piece * rng.choice((2, 3, 50)) + data[start:]


def _insert(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + rng.randbytes(rng.choice((1, 3, 50))) + data[start:]


def _swap_halves(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[start:] + data[:start]


def _noise(data: bytes, rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice((1, 10, 1000)))


def _empty(data: bytes, rng: random.Random) -> bytes:
    return b""


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_truncate, _lose_the_front, _flip_bits, _flip_bits, _flip_bits_near_an_end, _overwrite),
    *(_cut_out, _repeat, _insert, _swap_halves, _noise, _empty),
)


def damage_bytes(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Some damage, and what it is called.

    >>> damage_bytes(b"abc", random.Random(3))
    ('lose the front', b'')
    """
    chosen = rng.choice(BYTES)
    return chosen.__name__.strip("_").replace("_", " "), chosen(data, rng) if data else b""
