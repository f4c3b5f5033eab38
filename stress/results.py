"""Damaged directories of results, with torn and foreign lines, for ``uci report`` and ``run``."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from deepwishart.reproduction.sweeps import ResultsStore
from stress.cases import Failed, Outcome
from stress.command import command, judge
from stress.damage import damage_bytes
from stress.data import small_table, write_data
from stress.models import DELETED, ODD, _entries
from stress.tables import ENCODINGS

__all__ = ["SUITE"]

_SWEEP = ("--datasets", "yacht", "--processes", "dwp", "dgp", "--depths", "2", "--splits", "0-1")
_SMALL = ("--max-iter", "3", "--inducing", "3", "--elbo-samples", "2", "--test-samples", "2")
_FOREIGN = (
    *(b"", b" ", b"null", b"[]", b"3", b'"x"', b"{}", b"\xff\xfe", b"\x00" * 9, b"\x1b[2J"),
    *(b"<<<<<<< HEAD", b'{"dataset": "yacht"}', b"[" * 9999, b'{"a":' * 9999, b"x" * 10**6),
    b'{"dataset": NaN, "split": 1e999, "process": "\\ud800", "depth": 2}',
)
Lines = list[bytes]


class Results:
    """What ``uci run`` leaves behind, damaged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.environ["DEEPWISHART_DATA"] = str(folder / "data")

    def prepare(self) -> None:
        """A sweep of four runs, and its report, for what that imports."""
        splits = [(range(5, 40), range(5)), (range(35), range(35, 40))]
        write_data(self.folder / "data", small_table(np.random.default_rng(0)), splits)
        sweep = command("uci", "run", "--out", self.folder / "results", *_SWEEP, *_SMALL)
        report = command("uci", "report", self.folder / "results", "--out", self.folder / "report")
        if sweep.code or report.code:
            raise Failed(f"{sweep.err}{report.err}")

    def run(self, rng: random.Random, folder: Path) -> Outcome:
        """One directory, read in one of the ways there are."""
        out = folder / "results"
        shutil.copytree(self.folder / "results", out)
        path = rng.choice((*[out / "runs.jsonl"] * 9, rng.choice(sorted(out.glob("curves/*")))))
        lines = path.read_bytes().splitlines(keepends=True)
        what = rng.choice(tuple(DAMAGES))
        path.write_bytes(b"".join(DAMAGES[what](list(lines), rng)))
        changed = path.read_bytes().splitlines(keepends=True)
        if path.name == "runs.jsonl":
            found = {spec.key for spec in ResultsStore(out).read()[0]}
            kept = {key for key, line in zip(self._keys(), lines, strict=True) if line in changed}
            if lost := kept - found:
                raise Failed(f"{what}: {lost} lost, whose line is as it was")
        if rng.random() < 0.15:
            ended = command("uci", "report", out, "--out", folder / "report")
        else:
            ended = command("uci", "run", "--out", out, "--dry-run", *_SWEEP, *_SMALL)
        return Outcome(what, judge(ended))

    def _keys(self) -> list[str]:
        return [spec.key for spec in ResultsStore(self.folder / "results").read()[0]]


SUITE = Results


def _bytes(lines: Lines, rng: random.Random) -> Lines:
    return [damage_bytes(b"".join(lines), rng)[1]]


def _torn(lines: Lines, rng: random.Random) -> Lines:
    number = rng.choice((-1, -1, rng.randrange(len(lines))))
    return [
        *lines[:number],
        lines[number][: rng.randrange(len(lines[number]))],
        *lines[number:][1:],
    ]


def _foreign(lines: Lines, rng: random.Random) -> Lines:
    for _ in range(rng.choice((1, 1, 3))):
        end = rng.choice((b"\n", b"\n", b"\r\n", b""))
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(_FOREIGN) + end)
    return lines


def _odd_value(lines: Lines, rng: random.Random) -> Lines:
    number = rng.randrange(len(lines))
    record = json.loads(lines[number])
    for _ in range(rng.choice((1, 1, 1, 3))):
        if entries := list(_entries(record)):
            (where, key), value = rng.choice(entries), rng.choice((DELETED, *ODD))
            if value is DELETED:
                del where[key]
            else:
                where[key] = copy.deepcopy(value)
    lines[number] = json.dumps(record).encode() + b"\n"
    return lines


def _again(lines: Lines, rng: random.Random) -> Lines:
    rng.shuffle(lines)
    return [*lines, rng.choice(lines)]


def _encoded(lines: Lines, rng: random.Random) -> Lines:
    return [b"".join(lines).decode().encode(rng.choice(ENCODINGS), errors="replace")]


DAMAGES: dict[str, Callable[[Lines, random.Random], Lines]] = {
    "damaged bytes": _bytes,
    "a torn line": _torn,
    "foreign lines": _foreign,
    "odd values": _odd_value,
    "lines in another order, and one twice": _again,
    "another encoding": _encoded,
}
