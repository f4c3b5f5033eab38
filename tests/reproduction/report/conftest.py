"""Results directories of runs that never were, written through the store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepwishart.reproduction.report import published
from deepwishart.reproduction.sweeps import ResultsStore, RunSpec

STEPS = np.arange(49, 20_000, 50)


@pytest.fixture
def add_runs(tmp_path: Path) -> Callable[..., Path]:
    """Make a results directory of given records: pairs of a specification and its numbers. Those of
    five layers have a curve that ends at their ELBO."""

    def add(*runs: tuple[RunSpec, dict[str, Any]]) -> Path:
        store = ResultsStore(tmp_path / "results")
        with store.writing():
            for spec, numbers in runs:
                curve: dict[str, list[float]] = {"step": []}
                if spec.depth == 5:
                    elbo = numbers["elbo"] - 8.0 * np.exp(-STEPS / 2_000.0)
                    curve = {"step": STEPS, "elbo": elbo, "seconds": 0.01 * (STEPS + 1)}
                usual = {"status": "ok", "settings": {}, "seconds_per_step": 0.01}
                record = {**spec.to_dict(), **usual, **numbers}
                store.add(record, {name: list(map(float, curve[name])) for name in curve})
        return store.directory

    return add


@pytest.fixture
def make_results(add_runs: Callable[..., Path]) -> Callable[..., Path]:
    """Make a results directory of runs that scatter about the paper's means."""

    def make(
        num_splits: int = 5,
        datasets: tuple[str, ...] = ("boston", "yacht"),
        processes: tuple[str, ...] = ("dwp", "dgp"),
        depths: tuple[int, ...] = (2, 5),
    ) -> Path:
        random, runs = np.random.default_rng(0), []
        for dataset in datasets:
            for depth in depths:
                for split in range(num_splits):
                    for process in processes:
                        numbers = {"seconds_per_epoch": 0.01 * depth * random.uniform(0.99, 1.01)}
                        for metric in ("elbo", "test_log_likelihood"):
                            like = process if process == "dwp" else "dgp"
                            mean = published(metric, dataset, like, depth).mean
                            numbers[metric] = mean + 0.02 * random.normal()
                        runs.append((RunSpec(dataset, split, process, depth), numbers))
        return add_runs(*runs)

    return make
