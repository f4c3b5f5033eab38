"""One run: build a model, train it, evaluate it, and write down what came out."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import math
import operator
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import deepwishart
from deepwishart._support.machine import resolve_device, threads
from deepwishart.linalg import CholeskyError
from deepwishart.models import DeepKernelProcess, build
from deepwishart.objectives import elbo
from deepwishart.reproduction.datasets import Dataset, Standardised, standardise
from deepwishart.reproduction.sweeps.evaluate import evaluate
from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings
from deepwishart.training import (
    CheckpointError,
    CheckpointStore,
    History,
    ProgressEvent,
    Protocol,
    TrainingError,
    train,
)

__all__ = ["Outcome", "make_protocol", "run", "thin"]

CURVE_POINTS = 400
NUMERICAL_ERRORS = (TrainingError, CholeskyError, torch.linalg.LinAlgError, FloatingPointError)
_EVALUATION_SEED = 1_000_003  # keeps evaluation apart from the streams of initialisation, training


class Outcome(NamedTuple):
    """What a run leaves behind: its record, and its training curve.

    Both are ready for JSON. The record's ``status`` is ``"ok"``, or ``"failed"`` with a ``reason``.
    """

    record: dict[str, Any]
    curve: dict[str, list[float]]


def run(
    spec: RunSpec,
    settings: Settings,
    dataset: Dataset,
    checkpoint_dir: Path,
    *,
    execution: Execution | None = None,
    progress: Callable[[ProgressEvent], None] | None = None,
) -> Outcome:
    """Carry out a run, from the newest checkpoint in ``checkpoint_dir`` if there is one.

    A run that fails numerically is an outcome too. Anything else that goes wrong (a full disk, no
    memory) is raised.

    Args:
        spec: the run.
        settings: what it has in common with the other runs of its sweep.
        dataset: the data set that ``spec`` names.
        checkpoint_dir: a directory of this run's own.
        execution: threads, device, and how often to save.
        progress: called after every training step.

    >>> import tempfile
    >>> x, rows = np.linspace(-2.0, 2.0, 30), np.arange(30)
    >>> sine = Dataset("sine", x[:, None], np.sin(x), ((rows[::2], rows[1::2]),))
    >>> settings = Settings(num_inducing=5, max_iter=3, elbo_samples=20, test_samples=5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outcome = run(RunSpec("sine", 0, "dwp", 2), settings, sine, Path(folder))
    >>> outcome.record["status"], outcome.record["steps"]
    ('ok', 3)
    """
    execution = execution or Execution()
    device = resolve_device(execution.device)
    data = standardise(dataset.split(spec.split))
    num_rows = len(data.split.X_train)
    protocol = make_protocol(spec.protocol, num_rows, settings.max_iter)
    record = {
        **spec.to_dict(),
        "status": "ok",
        "num_train": num_rows,
        "num_test": len(data.split.X_test),
        "versions": _versions(),
        "settings": {
            **dataclasses.asdict(settings),
            "protocol": dataclasses.asdict(protocol),
            "threads": execution.threads,
            "device": device.type,
        },
    }
    history = History()
    store = CheckpointStore(checkpoint_dir, every_steps=execution.checkpoint_every)
    with threads(execution.threads):
        try:
            model = _train(spec, settings, data, protocol, device, store, history, progress)
            record.update(_evaluate(model, data, settings, spec.seed))
        except NUMERICAL_ERRORS as error:
            record.update(status="failed", reason=f"{type(error).__name__}: {error}")
    record.update(_timings(history, protocol, num_rows))
    record["finished_at"] = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Outcome(record, thin(history, CURVE_POINTS))


def make_protocol(name: str, num_rows: int, max_iter: int | None = None) -> Protocol:
    """The named protocol; with another number of steps, KL annealing keeps its proportion.

    >>> make_protocol("paper", 300, max_iter=2000).kl_anneal
    100
    """
    protocol = Protocol.named(name, num_rows)
    if max_iter is None:
        return protocol
    anneal = round(protocol.kl_anneal * max_iter / protocol.max_iter)
    return protocol.replace(max_iter=max_iter, kl_anneal=anneal)


def thin(history: History, num_points: int) -> dict[str, list[float]]:
    """A training curve of at most ``num_points`` points.

    Steps are grouped; each point has its group's last step and time, and its mean ELBO.

    >>> history = History(
    ...     step=[0, 1, 2, 3], elbo=[0.0, 1.0, 2.0, 4.0], seconds=[1.0, 2.0, 3.0, 4.0]
    ... )
    >>> thin(history, 2)
    {'step': [1, 3], 'elbo': [0.5, 3.0], 'seconds': [2.0, 4.0]}
    """
    count = len(history)
    ends = np.unique(np.linspace(0, count, min(num_points, count) + 1).astype(int))
    groups = list(itertools.pairwise(ends))
    return {
        "step": [history.step[end - 1] for _, end in groups],
        "elbo": [round(float(np.mean(history.elbo[begin:end])), 6) for begin, end in groups],
        "seconds": [round(history.seconds[end - 1], 3) for _, end in groups],
    }


def _train(
    spec: RunSpec,
    settings: Settings,
    data: Standardised,
    protocol: Protocol,
    device: torch.device,
    store: CheckpointStore,
    history: History,
    progress: Callable[[ProgressEvent], None] | None,
) -> DeepKernelProcess:
    dtype = getattr(torch, settings.dtype)
    X = torch.as_tensor(data.split.X_train, dtype=dtype, device=device)
    y = torch.as_tensor(data.split.y_train, dtype=dtype, device=device)

    def new_model() -> DeepKernelProcess:
        return build(
            spec.process,
            X,
            y,
            depth=spec.depth,
            num_inducing=settings.num_inducing,
            kernel=settings.kernel,
            dtype=dtype,
            seed=spec.seed,
        )

    def train_from_checkpoint(model: DeepKernelProcess) -> DeepKernelProcess:
        train(
            model,
            X,
            y,
            protocol,
            seed=spec.seed,
            history=history,
            checkpoints=store,
            resume=True,
            progress=progress,
        )
        return model

    _warm_up(new_model(), X, y)
    try:
        model = train_from_checkpoint(new_model())
    except CheckpointError:
        # Checkpoints of a sweep are scratch files: one of another version or setting is worth
        # less than a run that goes on.
        store.clear()
        history.truncate(0)
        history.recoveries.clear()
        model = train_from_checkpoint(new_model())
    if history.stopped_by == "interrupt":
        raise KeyboardInterrupt
    return model


@torch.no_grad()
def _warm_up(model: DeepKernelProcess, X: Tensor, y: Tensor) -> None:
    """Load, or on a new machine compile, whatever is needed, before the clock starts."""
    source = torch.Generator(model.device).manual_seed(0)
    with suppress(*NUMERICAL_ERRORS):  # training deals with those better
        elbo(model, X[:1], y[:1], num_data=len(X), num_samples=2, generator=source)


def _timings(history: History, protocol: Protocol, num_rows: int) -> dict[str, float]:
    """``seconds`` is the clock's; a step takes the median, since machines pause and are shared."""
    steps = len(history)
    clock = [0.0, *history.seconds]
    per_step = statistics.median(map(operator.sub, clock[1:], clock)) if steps else 0.0
    batches = math.ceil(num_rows / (protocol.batch_size or num_rows))
    return {
        "seconds": round(clock[-1], 3),
        "seconds_per_step": per_step,
        "seconds_per_epoch": batches * per_step,
        "steps": steps,
        "recoveries": len(history.recoveries),
    }


def _evaluate(
    model: DeepKernelProcess, data: Standardised, settings: Settings, seed: int
) -> dict[str, float]:
    began = time.perf_counter()
    numbers = evaluate(
        model,
        data,
        elbo_samples=settings.elbo_samples,
        test_samples=settings.test_samples,
        seed=seed + _EVALUATION_SEED,
    )
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise FloatingPointError(f"after training, {name} is {value}.")
    return {**numbers, "seconds_evaluation": round(time.perf_counter() - began, 3)}


def _versions() -> dict[str, str]:
    return {
        "deepwishart": deepwishart.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
