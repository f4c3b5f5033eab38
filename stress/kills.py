"""``fit`` and ``uci run`` killed at random times and at chosen writes, and started again."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import numpy as np

from deepwishart.training import CheckpointStore
from stress.cases import Failed, Outcome
from stress.command import Ended, judge, run_program
from stress.data import small_table, write_data
from stress.faults import KINDS, Plan, install
from stress.tables import base_columns

__all__ = ["SUITE"]

STEPS = 240
CHECKPOINT_EVERY = 40  # steps, instead of 500: a run of a second has several
SMALL = ["--inducing", "4", "--max-iter", str(STEPS)]
VARIANTS: dict[str, list[str]] = {
    "dwp": ["--depth", "2"],
    "dwp-auto": ["--depth", "auto"],
    "dwp-minibatches": ["--depth", "2", "--output", "inducing", "--batch-size", "10"],
    "dgp": ["--process", "dgp", "--depth", "3"],
}
RUNS = 4  # of a sweep
_LONGEST_CHAIN = 4  # kills of one run


class Run(ForkProcess):
    """A command of ``deepwishart`` in a fork, which starts in milliseconds; on disk there is no
    difference. What it prints goes to ``log``, and the plan is for files below ``watched``."""

    def __init__(
        self, words: list[object], log: Path, plan: Plan | None = None, watched: Path | None = None
    ) -> None:
        super().__init__()
        self.words, self.log, self.plan, self.watched = words, log, plan, watched
        self.start()

    def run(self) -> None:
        """In the fork."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Helpers of a killed run may still write to the same file.
        output = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if self.plan is not None and self.watched is not None:
            install(self.plan, self.watched)
        code = run_program([str(word) for word in self.words])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)

    def stop(self, number: int = signal.SIGKILL) -> None:
        """Send a signal, unless it is too late."""
        if self.is_alive():
            os.kill(self.pid, number)

    def wait(self) -> Ended:
        """How it ended."""
        self.join()
        return Ended(self.exitcode, "", self.log.read_text(errors="replace"))

    def workers(self) -> list[int]:
        """Processes of the kind that ``uci run`` starts."""
        try:
            found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            words = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in found}
        except OSError:
            return []
        return [int(pid) for pid, line in words.items() if "tracker" not in line]


class Kills:
    """Runs to be killed, and what they come to when they are not."""

    def __init__(self, folder: Path) -> None:
        CheckpointStore.__init__.__defaults__ = (CHECKPOINT_EVERY, 2)  # type: ignore[attr-defined]
        self.folder, self.table = folder, folder / "table.csv"
        os.environ["DEEPWISHART_DATA"] = str(folder / "data")

    def prepare(self) -> None:
        """A table and the data of a sweep."""
        self.folder.mkdir(exist_ok=True)
        lines = [base_columns().keys(), *zip(*base_columns().values(), strict=True)]
        self.table.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
        splits = [(range(5, 40), range(5)), (range(35), range(35, 40))]
        write_data(self.folder / "data", small_table(np.random.default_rng(0)), splits)

    def _undisturbed(self, name: str) -> tuple[Path, int, str]:
        """What a run comes to: its directory, the number of its operations, its predictions."""
        out, count, seen = (self.folder / f"{name}{end}" for end in ("", ".count", ".predicted"))
        if not seen.exists():
            words = self._sweep(out) if name == "sweep" else self._fit(name, out)
            _finished(words, self.folder, Plan(0, count_into=str(count)), out)
            seen.write_text("" if name == "sweep" else self._predict(out, self.folder).err)
        return out, count.stat().st_size, seen.read_text()

    def run(self, rng: random.Random, folder: Path) -> Outcome:
        """One run, killed one or several times and then left to finish."""
        what = rng.choice(("uci run", "predict", *VARIANTS, *VARIANTS))
        counts: Counter[str] = Counter()
        if what == "uci run":
            self._kill_sweep(rng, folder, counts)
        elif what == "predict":
            self._kill_predict(rng, folder, counts)
        else:
            self._kill_fit(what, rng, folder, counts)
        return Outcome(what, "recovered", dict(counts))

    # ---- fit -------------------------------------------------------------------------------------

    def _fit(self, name: str, out: Path) -> list[object]:
        target = "x" if name == "old" else "price"
        options = ["--target", target, "--out", out, "--samples", "1", "--quiet", "--seed", "3"]
        return ["fit", self.table, *options, *SMALL, *VARIANTS.get(name, [])]

    def _kill_fit(self, name: str, rng: random.Random, folder: Path, counts: Counter[str]) -> None:
        out = folder / "out"
        expected, total, predictions = self._undisturbed(name)
        replacing = rng.random() < 0.35
        if replacing:
            shutil.copytree(self._undisturbed("old")[0], out)
        words, reached = self._fit(name, out), 0
        for _ in range(rng.randint(1, _LONGEST_CHAIN)):
            if not _disturb([*words, _how_to_go_on(out)], out, rng, total, counts):
                break
            self._check_after(name, out, folder, replacing)
            newest = _newest_step(out)
            if newest is not None:
                if newest < reached and _status(out) != "finished":
                    raise Failed(f"checkpoints went back from step {reached} to {newest}")
                reached = newest
        _finished([*words, _how_to_go_on(out)], folder)
        if _content(out) != _content(expected):
            raise Failed(f"{name}: the model is not that of an undisturbed run")
        if self._predict(out, folder).err != predictions:
            raise Failed(f"{name}: predictions are not those of an undisturbed run")
        # A run that saved a model before it was stopped has that for a previous one, too.
        left = {entry.name for entry in out.iterdir()}
        if left | {"previous"} != {"previous", "regressor", "run.json"}:
            raise Failed(f"{name}: {sorted(left)} are left in the directory")
        if replacing:
            shutil.copytree(out / "previous", folder / "previous" / "regressor")
            if self._predict(folder / "previous", folder).err != self._undisturbed("old")[2]:
                raise Failed("previous/ is not the model that was replaced")

    def _predict(self, model: Path, folder: Path) -> Ended:
        return Run(["predict", model, self.table], folder / "predicted").wait()

    def _check_after(self, name: str, out: Path, folder: Path, replacing: bool) -> None:
        """After a kill: an old model is there as it was, or the new one is, or a sentence."""
        ended = self._predict(out, folder)
        judge(ended)
        if replacing and ended.err not in (self._undisturbed(x)[2] for x in ("old", name)):
            raise Failed(f"{name}: after a kill, predict says {ended.err[:500]}")

    def _kill_predict(self, rng: random.Random, folder: Path, counts: Counter[str]) -> None:
        """The file that is written is the old one or the new one, whole."""
        model, out = self._undisturbed("dwp")[0], folder / f"p{rng.choice(('.csv', '.parquet'))}"
        words: list[object] = ["predict", model, self.table, "--out", out]
        _finished(words, folder)
        whole = {out.read_bytes(), b"old"}
        for _ in range(rng.randint(1, _LONGEST_CHAIN)):
            out.write_bytes(b"old")
            run = Run(words, folder / "log")
            time.sleep(rng.uniform(0, 0.4))
            run.stop()
            _check_end(ended := run.wait())
            counts["kills"] += ended.code != 0
            if out.read_bytes() not in whole:
                raise Failed("predict was killed, and its file is neither the old nor the new one")

    # ---- uci run ---------------------------------------------------------------------------------

    def _sweep(self, out: Path) -> list[object]:
        return [
            *("uci", "run", "--out", out, "--datasets", "yacht", "--processes", "dwp", "dgp"),
            *("--depths", "2", "--splits", "0-1", "--protocol", "fast", "--workers", "1"),
            *("--elbo-samples", "5", "--test-samples", "5", *SMALL),
            *("--checkpoint-every", str(CHECKPOINT_EVERY)),
        ]

    def _kill_sweep(self, rng: random.Random, folder: Path, counts: Counter[str]) -> None:
        out = folder / "out"
        expected, total, _ = self._undisturbed("sweep")
        done: dict[str, Any] = {}
        for _ in range(rng.randint(1, _LONGEST_CHAIN)):
            if rng.random() < 0.4:
                run = Run(self._sweep(out), folder / "log")
                _wait_for(run, lambda: bool(list(out.glob("checkpoints/*/step-*"))), rng)
                target = rng.choice([run.pid, *run.workers()])
                if run.is_alive():
                    os.kill(target, signal.SIGKILL)
                    counts["kills"] += 1
                if target != run.pid:  # the sweep starts another one and goes on
                    time.sleep(rng.uniform(0, 3))
                    run.stop()
                _check_end(run.wait())
            elif not _disturb(self._sweep(out), out, rng, total, counts):
                break
            found = _records(out)
            if any(found.get(key) != record for key, record in done.items()):
                raise Failed("a finished run was lost, or is another one")
            done = found
        _finished(self._sweep(out), folder)
        if _records(out) != _records(expected):
            raise Failed("results are not those of an undisturbed sweep")


SUITE = Kills


def _disturb(
    words: list[object], out: Path, rng: random.Random, total: int, counts: Counter[str]
) -> bool:
    """Start a command and kill it, or take its disk away; ``False`` if it finished before that."""
    how = rng.choice(("operation", "operation", "time", "checkpoint", "checkpoint", "interrupt"))
    plan = None
    if how == "operation":
        plan = Plan(rng.randint(1, total), rng.choice((*KINDS[:3], *KINDS)))
    before = _newest_step(out)
    run = Run(words, out.with_name("log"), plan, out)
    if how == "time":
        time.sleep(rng.uniform(0, 1.5))
        run.stop()
    elif how != "operation":
        _wait_for(run, lambda: _newest_step(out) not in (None, before), rng)
        run.stop(signal.SIGINT if how == "interrupt" else signal.SIGKILL)
    ended = run.wait()
    _check_end(ended)
    if ended.code:
        kinds = {-signal.SIGKILL: "kills", 130: "interrupts"}
        counts[kinds.get(ended.code, "full or broken disks")] += 1
    return ended.code != 0


def _wait_for(run: Run, condition: Callable[[], bool], rng: random.Random) -> None:
    """Until it holds or the command has ended, and a little longer."""
    while run.is_alive() and not condition():
        time.sleep(0.002)
    time.sleep(rng.uniform(0, 0.1))


def _check_end(ended: Ended) -> None:
    """Killed, interrupted, or ended with a sentence."""
    if ended.code not in (-signal.SIGKILL, 130):
        judge(ended)
    elif "Traceback" in ended.err:
        raise Failed(ended.err[-1500:])


def _finished(
    words: list[object], folder: Path, plan: Plan | None = None, watched: Path | None = None
) -> None:
    ended = Run(words, folder / "log", plan, watched).wait()
    if ended.code:
        raise Failed(f"it cannot be finished, exit code {ended.code}: {ended.err[-1500:]}")


def _how_to_go_on(out: Path) -> str:
    """Anew, if the directory still belongs to the run of the old model."""
    try:
        settings = json.loads((out / "run.json").read_text())["settings"]
    except FileNotFoundError:
        return "--resume"
    return "--force" if settings["target"] == ["x"] else "--resume"


def _status(out: Path) -> str:
    """How the run stands; a finished one is about to remove its checkpoints, in any order."""
    return str(json.loads((out / "run.json").read_text())["status"])


def _newest_step(out: Path) -> int | None:
    found = [path.stem for path in out.glob("checkpoints/*/step-*.safetensors")]
    return max((int(stem.removeprefix("step-")) for stem in found), default=None)


def _content(out: Path) -> tuple[str, list[float], int]:
    """Tensors and course of training of a model, apart from the clock."""
    tensors = (out / "regressor" / "model.safetensors").read_bytes()
    history = json.loads((out / "regressor" / "history.json").read_text())
    return hashlib.sha256(tensors).hexdigest(), history["elbo"], len(history["step"])


def _records(out: Path) -> dict[str, Any]:
    """Results of all finished runs with their curves, apart from the clock."""
    found = {}
    if not (out / "runs.jsonl").exists():
        return found
    for line in (out / "runs.jsonl").read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            record = json.loads(line)
            key = "-".join(str(record[name]) for name in ("dataset", "split", "process", "depth"))
            clock = [name for name in record if name.startswith(("seconds", "finished"))]
            found[key] = {name: record[name] for name in record if name not in clock}
    if len(found) > RUNS:
        raise Failed(f"{len(found)} results of {RUNS} runs")
    return found
