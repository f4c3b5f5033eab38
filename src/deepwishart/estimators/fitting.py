"""What ``fit`` does once its data are clean: protocol, training run, final bound."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepwishart import objectives
from deepwishart.models import DeepKernelProcess
from deepwishart.training import (
    CheckpointStore,
    History,
    PlateauStopper,
    Protocol,
    make_progress,
    train,
)

__all__ = ["evaluate_elbo", "make_protocol", "run_training"]

_BLOCK_ELEMENTS = 2**22  # elements of one samples x inducing x rows block


def make_protocol(parameters: dict[str, Any], num_rows: int, *, continuing: bool) -> Protocol:
    """The training protocol that an estimator's parameters describe.

    A parameter that is ``None`` is the protocol's; where only ``max_iter`` or ``learning_rate`` is
    given, the length of the annealing and the final learning rate keep their proportion to it. A
    model that continues has annealed already.
    """
    chosen = parameters["protocol"]
    base = chosen if isinstance(chosen, Protocol) else Protocol.named(chosen, num_rows)
    changes: dict[str, Any] = {"num_samples": int(parameters["n_samples"])}
    if (max_iter := parameters["max_iter"]) is not None:
        changes["max_iter"] = int(max_iter)
        changes["kl_anneal"] = round(base.kl_anneal * max_iter / base.max_iter)
    if (rate := parameters["learning_rate"]) is not None:
        changes["learning_rate"] = float(rate)
        changes["final_learning_rate"] = base.final_learning_rate * rate / base.learning_rate
    if continuing:
        changes["kl_anneal"] = 0
    if parameters["kl_anneal"] is not None:
        changes["kl_anneal"] = int(parameters["kl_anneal"])
    size = parameters["batch_size"]
    size = base.batch_size if isinstance(size, str) else size
    changes["batch_size"] = None if size is None or size >= num_rows else int(size)
    return base.replace(**changes)


def run_training(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    protocol: Protocol,
    *,
    earlier: History,
    seed: int,
    early_stopping: bool,
    checkpoint_dir: str | os.PathLike[str] | None,
    verbose: int,
) -> History:
    """Train ``model`` in place, with progress, checkpoints and early stopping as asked for.

    Checkpoints go to a directory of their own for every combination of data, initial model,
    protocol and seed: the same fit started again resumes, a different one cannot pick them up by
    mistake.

    Returns:
        The history of ``earlier`` training, which stays as it is, and of this.
    """
    store = None
    if checkpoint_dir is not None:
        name = _run_name(model, X, y, protocol, seed)
        store = CheckpointStore(Path(checkpoint_dir) / name)
    should_stop: Callable[[History], bool] | None = None
    if early_stopping:
        should_stop = PlateauStopper(window=max(10, protocol.max_iter // 10), min_delta=1e-3)
    with make_progress(verbose, protocol.max_iter, model.process) as progress:
        return train(
            model,
            X,
            y,
            protocol,
            seed=seed,
            history=copy.deepcopy(earlier),
            checkpoints=store,
            resume=store is not None,
            progress=progress,
            should_stop=should_stop,
        )


@torch.no_grad()
def evaluate_elbo(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    *,
    num_samples: int,
    num_inducing: int,
    seed: int,
) -> float:
    """The ELBO per data point over all rows, streamed in chunks of bounded memory."""
    generator = torch.Generator(model.device).manual_seed(seed)
    rows = max(1, _BLOCK_ELEMENTS // (num_samples * num_inducing))
    total = 0.0
    for inputs, targets in zip(X.split(rows), y.split(rows), strict=True):
        bound = objectives.elbo(
            model,
            inputs,
            targets,
            num_data=len(X),
            num_samples=num_samples,
            generator=generator,
        )
        total += float(bound) * len(inputs)
    return total / len(X)


def _run_name(model: DeepKernelProcess, X: Tensor, y: Tensor, protocol: Protocol, seed: int) -> str:
    """A name that two training runs share only if they would do the same."""
    digest = hashlib.sha256(repr((sorted(asdict(protocol).items()), seed)).encode())
    for name, tensor in [("X", X), ("y", y), *model.state_dict().items()]:
        array = np.ascontiguousarray(tensor.detach().cpu().numpy())
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]
