"""Machines with little room, odd settings, planted links and packed tables that are no tables."""

from __future__ import annotations

import ctypes
import gzip
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl

import deepwishart
from stress.cases import Failed, Outcome
from stress.command import Ended, judge
from stress.kills import Run
from stress.tables import TINY, base_columns

__all__ = ["SUITE"]

_BOMB_BYTES, _BOMB_ROWS = 3 * 2**30, 200_000_000
LOG = Path(os.devnull)
_VICTIM = b"what was there before"
_MAY_DO_ALL = (1, 2, 3)  # capabilities by which root writes what is read-only
Settings = Callable[[], object]


class Surroundings:
    """A model, to be replaced and asked where something else than the command is odd."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.table = folder, folder / "gr\u00f6\u00dfe.csv"

    def prepare(self) -> None:
        """A table, a model, its predictions, and files that unpack to much more than they are."""
        self.folder.mkdir(exist_ok=True)
        columns = base_columns()
        columns["gr\u00f6\u00dfe"] = columns.pop("size")
        lines = [columns.keys(), *zip(*columns.values(), strict=True)]
        self.table.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
        model = self.folder / "model"
        judge(Run(["fit", self.table, "--target", "price", "--out", model, *TINY], LOG).wait())
        (self.folder / "predicted").write_text(self._predict(model).err)
        with gzip.open(self.folder / "bomb.csv.gz", "wb", compresslevel=1) as file:
            for _ in range(_BOMB_BYTES >> 24):
                file.write(bytes(2**24))
        zeros = pl.repeat(0, _BOMB_ROWS, dtype=pl.Int8, eager=True)
        pl.DataFrame({name: zeros for name in columns}).write_parquet(self.folder / "bomb.parquet")

    def run(self, rng: random.Random, folder: Path) -> Outcome:
        """One command in one of them; the model is there afterwards, or a new one."""
        shutil.copytree(self.folder / "model", folder / "model")
        what = rng.choice(tuple(SCENES))
        ended = SCENES[what](self, rng, folder)
        # Other people's code ends a process that is given no memory or descriptors.
        starved = what in ("memory", "descriptors") and ended.code != 0
        how = "ended for want of resources" if starved else judge(ended)
        expected, now = (self.folder / "predicted").read_text(), self._predict(folder / "model")
        if judge(now) != "accepted" or (how != "accepted" and now.err != expected):
            raise Failed(f"{what}: the model that was there is not there: {now.err[:300]}")
        return Outcome(what, how)

    def _words(self, rng: random.Random, folder: Path) -> list[object]:
        if rng.random() < 0.5:
            return ["predict", folder / "model", self.table, "--out", folder / "predicted.csv"]
        options = ["--target", "price", "--out", folder / "model", "--force", *TINY]
        return ["fit", self.table, *options]

    def _predict(self, model: Path) -> Ended:
        return Run(["predict", model, self.table], model.with_name("log")).wait()

    def _within(self, set_up: Settings, words: list[object], folder: Path) -> Ended:
        """A command in a fork that has been set up."""

        class Odd(Run):
            def run(self) -> None:
                set_up()
                super().run()

        return Odd(words, folder / "log").wait()

    def limited(self, rng: random.Random, folder: Path, which: int, most: int) -> Ended:
        """A command with less of something than it is used to."""
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = 10 + rng.randrange(most) + used * (which == resource.RLIMIT_AS)
        words = self._words(rng, folder)
        return self._within(lambda: resource.setrlimit(which, (limit, limit)), words, folder)

    def umask(self, rng: random.Random, folder: Path) -> Ended:
        """Files that nobody, or everybody, may read and write."""
        mask = rng.choice((0, 0o077, 0o222, 0o777))
        return self._within(lambda: os.umask(mask), self._words(rng, folder), folder)

    def nowhere(self, rng: random.Random, folder: Path) -> Ended:
        """No working directory, or none for temporary files."""
        gone = folder / "gone"
        gone.mkdir()

        def set_up() -> None:
            os.chdir(gone)
            gone.rmdir()
            tempfile.tempdir = rng.choice((None, str(gone)))
            os.environ["TMPDIR"] = str(gone)

        return self._within(set_up, self._words(rng, folder), folder)

    def links(self, rng: random.Random, folder: Path) -> Ended:
        """Links to somebody's file or folder, where the command is about to write."""
        name = rng.choice(
            (
                *(".lock", "previous", ".run.json.partial", ".previous.partial", "checkpoints"),
                *(".regressor.previous", "run.json", "../predicted.csv", ".regressor.tmp"),
            )
        )
        victim, kind, path = (
            folder / "victim",
            rng.choice(("file", "folder")),
            folder / "model" / name,
        )
        victim.mkdir()
        (victim / "file").write_bytes(_VICTIM)
        path.unlink() if path.exists() else None
        path.symlink_to(victim / "file" if kind == "file" else victim)
        ended = self._within(lambda: None, self._words(rng, folder), folder)
        if (victim / "file").read_bytes() != _VICTIM:
            raise Failed(f"a link at {name} led to somebody's {kind}, which is spoilt")
        if name == "run.json" and not path.is_file():  # it is damaged, and has to be
            path.unlink()
        return ended

    def bomb(self, rng: random.Random, folder: Path) -> Ended:
        """A small file that is large when it is unpacked."""
        path = self.folder / rng.choice(("bomb.csv.gz", "bomb.parquet"))
        words: list[object] = ["predict", folder / "model", path, "--out", folder / "predicted.csv"]
        if rng.random() < 0.5:
            words = ["fit", path, "--target", "price", "--out", folder / "model", "--force", *TINY]
        ended = self._within(lambda: None, words, folder)
        if ended.code == 0 and words[0] == "fit":
            raise Failed("a model was fitted to a bomb")
        return ended

    def anew(self, rng: random.Random, folder: Path) -> Ended:
        """A command started anew: other encodings, no home, packages that cannot be written."""
        package = Path(deepwishart.__file__).parents[1]
        settings = rng.choice(
            (
                {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
                {"PYTHONIOENCODING": rng.choice(("ascii", "latin-1", "utf-16"))},
                {"HOME": "/nowhere", "XDG_CACHE_HOME": "/nowhere", "TMPDIR": "/nowhere"},
                {"HOME": "", "TERM": "dumb", "COLUMNS": "1"},
                {"DEEPWISHART_NATIVE": "0", "HOME": str(folder)},
            )
        )
        if rng.random() < 0.5:
            shutil.copytree(package / "deepwishart", folder / "site" / "deepwishart")
            package = folder / "site"
            for path in (package, *package.rglob("*")):
                path.chmod(path.stat().st_mode & ~0o222)
        before = sorted(package.rglob("*"))
        words = [sys.executable, "-m", "deepwishart", *map(str, self._words(rng, folder))]
        done = subprocess.run(
            words,
            env={**os.environ, **settings, "PYTHONPATH": str(package)},
            preexec_fn=_like_anyone,
            capture_output=True,
            cwd=folder,
        )
        if package.name == "site" and sorted(package.rglob("*")) != before:
            raise Failed("a package that cannot be written was written to")
        return Ended(done.returncode, "", done.stderr.decode(errors="replace").replace("\0", ""))


SUITE = Surroundings
SCENES: dict[str, Callable[[Surroundings, random.Random, Path], Ended]] = {
    "memory": lambda suite, *case: suite.limited(*case, resource.RLIMIT_AS, 2**29),
    "descriptors": lambda suite, *case: suite.limited(*case, resource.RLIMIT_NOFILE, 60),
    "disk": lambda suite, *case: suite.limited(*case, resource.RLIMIT_FSIZE, 2**16),
    "umask": Surroundings.umask,
    "no directories": Surroundings.nowhere,
    "links": Surroundings.links,
    "bombs": Surroundings.bomb,
    "started anew": Surroundings.anew,
}


def _like_anyone() -> None:
    """Root is refused as others are, from the next program on."""
    for capability in _MAY_DO_ALL:
        ctypes.CDLL(None).prctl(24, capability)
