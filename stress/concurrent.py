"""Several at once: processes and threads with one model, one checkpoint directory, one --out."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from deepwishart._support.lock import InUseError
from deepwishart.estimators import DeepKernelRegressor
from deepwishart.reproduction.sweeps import ResultsStore, RunSpec
from deepwishart.training import CheckpointStore
from stress.cases import Failed, Outcome
from stress.command import command, judge
from stress.tables import base_columns, fit

__all__ = ["SUITE"]

STEPS, CHECKPOINT_EVERY = 60, 7
REGRESSOR: dict[str, Any] = {"depth": 2, "n_inducing": 3, "n_samples": 1, "n_predict_samples": 3}
SEEDS = {"old": "3", "new": "4"}  # of models
Work = Callable[[], Any]


class Concurrent:
    """One folder for several processes or threads, and what each of them would find alone."""

    def __init__(self, folder: Path) -> None:
        CheckpointStore.__init__.__defaults__ = (CHECKPOINT_EVERY, 2)  # type: ignore[attr-defined]
        self.folder, self.table = folder, folder / "table.csv"
        columns = base_columns()
        self.X = np.c_[columns["x"], columns["size"]].astype(float)
        self.y = np.array(columns["price"])

    def prepare(self) -> None:
        """Two models, what they predict, and what a regressor comes to."""
        self.folder.mkdir(exist_ok=True)
        pl.DataFrame(base_columns()).write_csv(self.table)
        for name, seed in SEEDS.items():
            judge(fit(self.table, "price", self.folder / name, "--seed", seed))
        alone = self._trained(self.folder / "alone")
        texts = {name: self._predicted(self.folder / name) for name in SEEDS}
        (self.folder / "expected.json").write_text(json.dumps({**texts, "alone": alone}))

    def run(self, rng: random.Random, folder: Path) -> Outcome:
        """Some of them at the same time."""
        self.expected = json.loads((self.folder / "expected.json").read_text())
        name = rng.choice(tuple(SCENES))
        shutil.copytree(self.folder / "old", folder / "model")
        number = SCENES[name](self, rng, folder)
        return Outcome(name, "recovered", {"processes or threads": number})

    def replaced(self, rng: random.Random, folder: Path) -> int:
        """Some predict while another puts a new model in place of the old one."""
        seen = self._predict_often(folder / "model", rng)
        writers = [functools.partial(self._replace, folder / "model", rng.randint(1, 4))]
        readers = [seen] * rng.randint(1, 4)
        for texts in together(folder, writers + readers)[1:]:
            self._check(texts)
        return 1 + len(readers)

    def one_out(self, rng: random.Random, folder: Path) -> int:
        """Some fit into one directory, where a model is or is not, while another predicts."""
        out = folder / rng.choice(("model", "fresh"))
        how = rng.choice(("--force", "--resume", "--force")) if out.name == "model" else "--resume"
        works: list[Work] = [
            lambda: judge(fit(self.table, "price", out, "--seed", SEEDS["new"], how))
        ] * rng.randint(2, 4)
        ends = together(folder, works)
        if "accepted" not in ends and how == "--force":
            raise Failed(f"nobody could fit: {ends}")
        if (out / "regressor").exists():
            self._check([self._predicted(out)])
        left = {entry.name for entry in out.iterdir()} - {"previous", "regressor", "run.json"}
        if left:
            raise Failed(f"{sorted(left)} are left in the directory")
        return len(works)

    def one_checkpoint_directory(self, rng: random.Random, folder: Path) -> int:
        """Regressors with one directory of checkpoints: each ends as if alone, or is refused."""
        works: list[Work] = [lambda: self._trained(folder / "checkpoints")] * rng.randint(2, 3)
        ends = together(folder, works)
        if any(end not in (self.expected["alone"], "refused") for end in ends):
            raise Failed(f"a regressor came to {ends}, alone it is {self.expected['alone']}")
        if ends.count("refused") == len(ends):
            raise Failed("nobody could train")
        return len(works)

    def threads(self, rng: random.Random, folder: Path) -> int:
        """Threads predict with a model and load it, while one saves it and one fits another."""
        return together(folder, [functools.partial(self._threads, folder, rng.randint(1, 3))])[0]

    def one_output(self, rng: random.Random, folder: Path) -> int:
        """Some write their predictions to one file."""
        out, model = folder / "out.csv", folder / "model"
        works: list[Work] = [
            lambda: judge(command("predict", model, self.table, "--out", out))
        ] * rng.randint(2, 4)
        ends = together(folder, works)
        if set(ends) != {"accepted"} or out.read_text() != self.expected["old"]:
            raise Failed(f"one file for several ended {ends}, or is torn")
        return len(works)

    def results(self, rng: random.Random, folder: Path) -> int:
        """Some add results to a directory, while others read it."""
        writers: list[Work] = [
            functools.partial(_add, folder / "results", seed) for seed in range(rng.randint(1, 3))
        ]
        readers: list[Work] = [functools.partial(_read, folder / "results")] * rng.randint(1, 3)
        ends = together(folder, writers + readers)
        added = [each for end in ends[: len(writers)] for each in end]
        found = sorted(spec.key for spec in ResultsStore(folder / "results").records())
        if sorted(added) != found:
            raise Failed(f"of {len(added)} results {len(found)} are there")
        return len(ends)

    # ---- what one of them does ------------------------------------------------------------------

    def _predicted(self, model: Path) -> str:
        ended = command("predict", model, self.table)
        return ended.out if judge(ended) == "accepted" else f"refused: {ended.err}"

    def _predict_often(self, model: Path, rng: random.Random) -> Work:
        times = rng.randint(2, 8)
        return lambda: [self._predicted(model) for _ in range(times)]

    def _replace(self, model: Path, times: int) -> None:
        """With the new model and the old one in turn, as ``fit --force`` would put them there."""
        for number in range(times):
            seed = SEEDS["old" if number % 2 else "new"]
            if judge(fit(self.table, "price", model, "--seed", seed, "--force")) != "accepted":
                raise Failed("a model cannot be replaced while others read it")

    def _check(self, texts: Sequence[str]) -> None:
        for text in texts:
            if text not in (self.expected["old"], self.expected["new"]):
                raise Failed(f"neither the old model nor the new one predicts {text[:300]}")

    def _trained(self, checkpoints: Path) -> list[float] | str:
        options = {"max_iter": STEPS, "random_state": 0, "checkpoint_dir": checkpoints}
        try:
            regressor = DeepKernelRegressor(**REGRESSOR, **options).fit(self.X, self.y)
        except InUseError:
            return "refused"
        return regressor.history_.elbo

    def _threads(self, folder: Path, number: int) -> int:
        regressor = DeepKernelRegressor.load(folder / "model" / "regressor")
        X = pl.DataFrame(
            np.zeros((5, regressor.n_features_in_)), regressor.feature_names_in_.tolist()
        )
        expected, problems = regressor.predict(X), []

        def predicts(get: Callable[[], DeepKernelRegressor]) -> None:
            for _ in range(4):
                if not np.array_equal(get().predict(X), expected):
                    problems.append("a thread predicts something else")

        def saves() -> None:
            for _ in range(4):
                regressor.save(folder / "saved")

        def load() -> DeepKernelRegressor:
            return DeepKernelRegressor.load(folder / "saved")

        def guarded(work: Work) -> None:
            try:
                work()
            except BaseException:
                problems.append(traceback.format_exc())

        saves()
        works: list[Work] = [saves, lambda: self._trained(folder / "checkpoints")]
        works += [lambda: predicts(lambda: regressor), lambda: predicts(load)] * number
        running = [threading.Thread(target=guarded, args=(work,)) for work in works]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        if problems:
            raise Failed(problems[0])
        return len(works)


SUITE = Concurrent
SCENES: dict[str, Callable[[Concurrent, random.Random, Path], int]] = {
    "a model that is replaced": Concurrent.replaced,
    "one --out": Concurrent.one_out,
    "one directory of checkpoints": Concurrent.one_checkpoint_directory,
    "threads": Concurrent.threads,
    "one file of predictions": Concurrent.one_output,
    "one directory of results": Concurrent.results,
}


def _add(folder: Path, seed: int) -> list[str]:
    added, store = [], ResultsStore(folder)
    for split in range(20):
        spec = RunSpec("yacht", split, "dwp", 2, seed=seed)
        try:
            with store.writing():
                store.add({**spec.to_dict(), "status": "ok"}, {"step": [split]})
        except InUseError:
            continue
        added.append(spec.key)
    return added


def _read(folder: Path) -> None:
    for _ in range(20):
        ResultsStore(folder).records()


def together(folder: Path, works: Sequence[Work]) -> list[Any]:
    """What each returns, in a process of its own."""
    pids = []
    for number, work in enumerate(works):
        pids.append(os.fork())
        if pids[-1] == 0:
            try:
                found = {"returned": work()}
            except BaseException:
                found = {"failed": traceback.format_exc()}
            (folder / f"{number}.json").write_text(json.dumps(found))
            os._exit(0)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    if any(codes):
        raise Failed(f"processes ended with {codes}")
    ends = [json.loads((folder / f"{number}.json").read_text()) for number in range(len(works))]
    if failed := [end["failed"] for end in ends if "failed" in end]:
        raise Failed(failed[0])
    return [end["returned"] for end in ends]
