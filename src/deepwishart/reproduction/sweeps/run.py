"""One run: build a model, train it, evaluate it, and write down what came out."""

from __future__ import annotations

import dataclasses
import datetime
import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from deepwishart._support.arguments import resolve_device
from deepwishart._support.machine import threads
from deepwishart.bound import elbo
from deepwishart.estimators import ScaledModel, Standardiser, estimate_elbo, score
from deepwishart.model import DeepKernelProcess
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.reproduction.datasets import Dataset, Split
from deepwishart.reproduction.published import published
from deepwishart.reproduction.sweeps.curves import thin, time_to_bound
from deepwishart.reproduction.sweeps.spec import Execution, RunSpec, Settings, model_defaults
from deepwishart.reproduction.sweeps.versions import versions
from deepwishart.spec import ModelSpec
from deepwishart.start import make_model
from deepwishart.training import (
    CheckpointError,
    CheckpointStore,
    History,
    ProgressEvent,
    Protocol,
    TrainingError,
    adjust_protocol,
    model_options,
    run_training,
)

NUMERICAL_ERRORS = (TrainingError, CholeskyError, torch.linalg.LinAlgError, FloatingPointError)
_EVALUATION_SEED = 1_000_003  # keeps evaluation apart from the streams of initialisation, training


class Outcome(NamedTuple):
    """What a run leaves behind, ready for JSON: its record, whose ``status`` is ``"ok"``, or
    ``"failed"`` with a ``reason``, and its training curve."""

    record: dict[str, Any]
    curve: dict[str, list[float]]


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


def make_scaled(
    model: ModelSpec, X: np.ndarray, y: np.ndarray, *, device: str | torch.device, **options: Any
) -> ScaledModel:
    """A model of data ``(N, num_features)`` and ``(N, 1)`` in any units; ``options`` are those of
    :func:`deepwishart.start.make_model`."""
    scalings = Standardiser.fit(X), Standardiser.fit(y)
    data = (
        torch.as_tensor(scaling.forward(values), dtype=model.torch_dtype)
        for scaling, values in zip(scalings, (X, y), strict=True)
    )
    return ScaledModel(make_model(model, *data, **options).to(device), *scalings)


def run(
    spec: RunSpec,
    settings: Settings,
    dataset: Dataset,
    checkpoint_dir: Path,
    *,
    execution: Execution | None = None,
    progress: Callable[[ProgressEvent], None] | None = None,
) -> Outcome:
    """Carry out a run, from the newest checkpoint in ``checkpoint_dir``, a directory of its own, if
    there is one; ``progress`` is called after every training step.

    A run that fails numerically is an outcome too. Anything else that goes wrong (a full disk, no
    memory) is raised.
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
    if settings.start == "prior":
        protocol = protocol.replace(shallow_steps=0)
    store = CheckpointStore(checkpoint_dir, every_steps=execution.checkpoint_every)
    X, y, history = split.X_train, split.y_train[:, None], History()

    def train() -> ScaledModel:
        place: dict[str, Any] = {"device": device, "start": settings.start}
        scaled = make_scaled(model, X, y, seed=spec.seed, **place)
        data = scaled.standardise(X, y)
        _warm_up(scaled.model, *data)
        options: dict[str, Any] = {"history": history, "progress": progress, "checkpoints": store}
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
    curve, usual = thin(history), model_defaults()
    chosen = {k: v for k, v in model.to_dict().items() if k in usual and v != usual[k]}
    record = {
        **spec.to_dict(),
        "status": "ok",
        "num_train": num_rows,
        "num_test": len(split.X_test),
        "versions": versions(),
        "settings": {
            "model": chosen,
            **{name: getattr(settings, name) for name in ("start", "elbo_samples", "test_samples")},
            "protocol": {**dataclasses.asdict(protocol), "betas": list(protocol.betas)},
            "threads": execution.threads,
            "device": device.type,
        },
        **numbers,
        **_timings(history, protocol, num_rows),
        **_time_to_published(spec, curve, protocol),
        "finished_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    return Outcome(record, curve)


@torch.no_grad()
def _warm_up(model: DeepKernelProcess, X: Tensor, y: Tensor) -> None:
    """Load, or on a new machine compile, whatever is needed, before the clock starts."""
    source = torch.Generator(model.device).manual_seed(0)
    with suppress(*NUMERICAL_ERRORS):  # training deals with those better
        elbo(model, X[:100], y[:100], num_data=len(X[:100]), num_samples=2, generator=source)


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


def _time_to_published(
    spec: RunSpec, curve: dict[str, list[float]], protocol: Protocol
) -> dict[str, float]:
    """Steps and seconds until the published mean ELBO; nothing if there is none, or none yet."""
    paper = published("elbo", spec.dataset, spec.process, spec.depth)
    reached = paper and time_to_bound(curve, paper.mean, protocol.kl_anneal)
    if not reached:
        return {}
    return {"steps_to_published": reached.steps, "seconds_to_published": reached.seconds}


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
