"""Results directories of runs that never were, written through the store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepwishart.reproduction.report import published
from deepwishart.reproduction.sweeps import ResultsStore, RunSpec

PROTOCOL = {"max_iter": 20_000, "learning_rate": 0.01, "num_samples": 10, "batch_size": None}


def make_record(spec: RunSpec, **numbers: Any) -> dict[str, Any]:
    return {
        **spec.to_dict(),
        "status": "ok",
        "num_train": 455,
        "num_test": 51,
        "versions": {"deepwishart": "0.2.0", "torch": "2.0"},
        "settings": {"model": {}, "protocol": PROTOCOL},
        "steps": 20_000,
        "seconds": 100.0,
        **numbers,
    }


def make_curve(end: float, seconds: float) -> dict[str, list[float]]:
    step = np.arange(49, 20_000, 50)
    elbo = end - 8.0 * np.exp(-step / 2_000.0)
    return {
        "step": step.tolist(),
        "elbo": elbo.tolist(),
        "seconds": (seconds * (step + 1) / 20_000).tolist(),
    }


def synthetic(
    directory: Path,
    num_splits: int = 5,
    datasets: tuple[str, ...] = ("boston", "yacht"),
    processes: tuple[str, ...] = ("dwp", "dgp"),
    depths: tuple[int, ...] = (2, 5),
) -> Path:
    """Runs that scatter about the paper's means; DWP gains 0.01 on DGP's ELBO in every split."""
    random = np.random.default_rng(0)
    store = ResultsStore(directory)
    with store.writing():
        for dataset in datasets:
            for depth in depths:
                for split in range(num_splits):
                    luck = random.normal(0.0, 0.02, 2)
                    for process in processes:
                        add_run(store, RunSpec(dataset, split, process, depth), luck, random)
    return directory


def add_run(store: ResultsStore, spec: RunSpec, luck: np.ndarray, random: Any) -> None:
    like = spec.process if spec.process in ("dwp", "dgp") else "dgp"
    paper = [published(m, spec.dataset, like, spec.depth) for m in ("elbo", "test_log_likelihood")]
    elbo, likelihood = (p.mean if p else 0.0 for p in paper)
    seconds = (0.01 if spec.process == "dwp" else 0.02) * spec.depth * random.uniform(0.99, 1.01)
    numbers = {
        "elbo": elbo + luck[0] + 0.001 * random.normal(),
        "test_log_likelihood": likelihood + luck[1] + 0.05 * random.normal(),
        "seconds_per_epoch": seconds,
        "seconds_per_step": seconds,
    }
    curve = make_curve(elbo, 20_000 * seconds)
    store.add(make_record(spec, **numbers), curve if spec.depth == 5 else {"step": []})


@pytest.fixture
def make_results(tmp_path: Path) -> Callable[..., Path]:
    """Make a results directory; the arguments are those of ``synthetic``."""
    return lambda **choices: synthetic(tmp_path / "results", **choices)


@pytest.fixture
def add_runs(tmp_path: Path) -> Callable[..., Path]:
    """Make a results directory of given records: pairs of a specification and its numbers."""

    def add(*runs: tuple[RunSpec, dict[str, Any]]) -> Path:
        store = ResultsStore(tmp_path / "results")
        with store.writing():
            for spec, numbers in runs:
                store.add(make_record(spec, **numbers), {"step": [], "elbo": [], "seconds": []})
        return tmp_path / "results"

    return add
