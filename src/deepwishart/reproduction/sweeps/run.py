"""One run: build a model, train it, evaluate it, and write down what came out."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

import deepwishart
from deepwishart._support.arguments import resolve_device
from deepwishart._support.machine import threads
from deepwishart.estimators import ScaledModel, estimate_elbo, score
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.reproduction.datasets import Dataset, Split
from deepwishart.reproduction.sweeps.curves import thin
from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings, model_defaults
from deepwishart.spec import ModelSpec
from deepwishart.training import (
    CheckpointError,
    CheckpointStore,
    History,
    Protocol,
    TrainingError,
    adjust_protocol,
    model_options,
    run_training,
)

NUMERICAL_ERRORS = (TrainingError, CholeskyError, torch.linalg.LinAlgError, FloatingPointError)
_EVALUATION_SEED = 1_000_003  # keeps evaluation apart from the streams of initialisation, training


def structure(
    spec: RunSpec, settings: Settings, num_rows: int = 1, num_features: int = 1
) -> ModelSpec:
    """The model that a run trains on so many rows; ``ValueError`` where there is none.

    >>> structure(RunSpec("yacht", 0, "dwp", 3), Settings({"num_inducing": 50})).mixing
    0.018
    """
    options = model_options(spec.protocol, num_rows, settings.model.get("output", "auto"))
    options |= settings.model
    return ModelSpec(num_features, process=spec.process, depth=spec.depth, **options)


def run(
    spec: RunSpec,
    settings: Settings,
    dataset: Dataset,
    checkpoint_dir: Path,
    *,
    execution: Execution | None = None,
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Carry out a run, from the newest checkpoint in ``checkpoint_dir``, a directory of its own, if
    there is one.

    A run that fails numerically has an outcome too. Anything else that goes wrong (a full disk, no
    memory) is raised.

    Returns:
        What the run leaves behind, ready for JSON: its record, whose ``status`` is ``"ok"``, or
        ``"failed"`` with a ``reason``, and its training curve.
    """
    execution = execution or Execution()
    device = resolve_device(execution.device)
    split = dataset.split(spec.split)
    num_rows, num_features = split.X_train.shape
    model = structure(spec, settings, num_rows, num_features)
    protocol = adjust_protocol(
        spec.protocol,
        num_rows,
        max_iter=settings.max_iter,
        learning_rate=settings.learning_rate,
        num_samples=settings.num_samples,
        num_inducing=model.num_inducing,
        output=model.output,
    )
    store = CheckpointStore(checkpoint_dir, every_steps=execution.checkpoint_every)
    X, y, history = split.X_train, split.y_train[:, None], History()

    def train() -> ScaledModel:
        start: dict[str, Any] = {"seed": spec.seed, "start": settings.start}
        scaled = ScaledModel.build(model, X, y, device=device, **start)
        data = scaled.standardise(X, y)
        options: dict[str, Any] = {"history": history, "checkpoints": store}
        run_training(scaled.model, *data, protocol, seed=spec.seed, **options)
        if history.stopped_by == "interrupt":
            raise KeyboardInterrupt
        return scaled

    with threads(execution.threads):
        try:
            try:
                scaled = train()
            except CheckpointError:
                # Checkpoints of a sweep are scratch files: one of another version or setting is
                # worth less than a run that goes on.
                store.clear()
                history = History()
                scaled = train()
            numbers = _evaluate(scaled, split, settings, spec.seed)
        except NUMERICAL_ERRORS as error:
            numbers = {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    usual = model_defaults()
    chosen = {k: v for k, v in model.to_dict().items() if k in usual and v != usual[k]}
    record = {
        **spec.to_dict(),
        "status": "ok",
        "num_train": num_rows,
        "num_test": len(split.X_test),
        "versions": _versions(),
        "settings": {
            "model": chosen,
            **{name: getattr(settings, name) for name in ("start", "elbo_samples", "test_samples")},
            "protocol": {**dataclasses.asdict(protocol), "betas": list(protocol.betas)},
            "threads": execution.threads,
            "device": device.type,
        },
        **numbers,
        **_timings(history, protocol, num_rows),
        "finished_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    return record, thin(history)


@functools.cache
def _versions() -> dict[str, str]:
    """Of the packages that matter, and the commit where this one is in a git repository."""
    found = {package.__name__: package.__version__ for package in (deepwishart, torch, np)}
    # With a file of ours: an installation may be within somebody else's repository.
    command = ["git", "rev-parse", "HEAD", "HEAD:./__init__.py"]
    with suppress(OSError, subprocess.CalledProcessError):
        place: dict[str, Any] = {"cwd": Path(deepwishart.__file__).parent, "text": True}
        said = subprocess.run(command, capture_output=True, check=True, **place)
        found["commit"] = said.stdout[:12]
    return found


def _timings(history: History, protocol: Protocol, num_rows: int) -> dict[str, float]:
    """``seconds`` is the clock's; a step takes the median, since machines pause and are shared."""
    clock = [0.0, *history.seconds]
    per_step = float(np.median(np.diff(clock))) if len(history) else 0.0
    return {
        "seconds": round(clock[-1], 3),
        "seconds_per_step": per_step,
        "seconds_per_epoch": math.ceil(num_rows / (protocol.batch_size or num_rows)) * per_step,
        "steps": len(history),
        "recoveries": len(history.recoveries),
    }


def _evaluate(scaled: ScaledModel, split: Split, settings: Settings, seed: int) -> dict[str, Any]:
    """The paper's two numbers and three more.

    The ELBO is per training point in standardised units. Everything about test points is in the
    original units of y: the log likelihood is that of the mixture over ``test_samples`` posterior
    samples, averaged over test points.
    """
    began = time.perf_counter()
    data = scaled.standardise(split.X_train, split.y_train[:, None])
    generator = torch.Generator(scaled.model.device).manual_seed(seed + _EVALUATION_SEED)
    bound = estimate_elbo(
        scaled.model, *data, num_samples=settings.elbo_samples, generator=generator
    )
    prediction = scaled.predict(split.X_test, settings.test_samples, seed + _EVALUATION_SEED + 1)
    (scores,) = score(prediction, split.y_test[:, None])
    numbers = {
        "elbo": bound.mean,
        "elbo_se": bound.standard_error,
        "test_log_likelihood": scores.pop("log_likelihood"),
        **scores,
    }
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise FloatingPointError(f"after training, {name} is {value}.")
    return {**numbers, "seconds_evaluation": round(time.perf_counter() - began, 3)}
