"""A step that fails never reaches the parameters, and is explained where it fails for good."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from deepwishart.bound import NUMERICAL_ERRORS
from deepwishart.layers.base import NamedPart
from deepwishart.model import DeepKernelProcess
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.random import Randomness
from deepwishart.training.checkpoint import CheckpointStore
from deepwishart.training.state import TrainingState

MAX_TRIES = 10  # failures without reaching the next snapshot before giving up


class TrainingError(RuntimeError):
    """Training cannot go on. The model has been set back to its last good state.

    Attributes:
        step: number of the step that failed, from 0.
        layer: the layer where it failed, as in ``"layer 2"``.
        last_good: checkpoint file with the last good state, or ``None`` without checkpoints.
    """

    def __init__(self, message: str, *, step: int, layer: str, last_good: Path | None) -> None:
        super().__init__(message)
        self.step, self.layer, self.last_good = step, layer, last_good


def step_failed(
    state: TrainingState,
    checkpoints: CheckpointStore | None,
    where: str,
    layer: str,
    learning_rate: float,
) -> None:
    """Go back to the last good state and be more careful, or give up.

    A step fails when its objective or gradient is not finite, or a matrix in it cannot be
    factorised. Parameters, optimiser, step number and history go back to the last snapshot, the
    learning rate is halved, and training goes on with fresh noise; snapshot by snapshot the rate
    grows back by a fifth. After :data:`MAX_TRIES` failures without another snapshot,
    :class:`TrainingError` ends training and leaves the last good state in ``checkpoints``.
    ``where`` and ``layer`` are those of :func:`explain`.
    """
    failed = state.step
    state.history.recoveries.append(failed)
    state.restore()
    state.step_factor *= 0.5
    state.tries += 1
    if state.tries < MAX_TRIES:
        return
    state.history.stopped_by = "error"
    state.step_factor, state.tries = 1.0, 0  # whoever resumes has changed something
    message = (
        f"Training stopped at step {failed}: {where} This was failure {MAX_TRIES} in a row, "
        f"with a learning rate reduced to {learning_rate:.1e}. Lower the learning rate, use "
        "float64 or a larger jitter, and check that X and y are standardised. The model has "
        f"been set back to its last good state, after {state.step} steps"
    )
    path = None if checkpoints is None else checkpoints.save(state.checkpoint())
    message += "." if path is None else f", which is also saved in {path}."
    raise TrainingError(message, step=failed, layer=layer, last_good=path)


def explain(
    model: DeepKernelProcess, error: Exception | None, value: float, X: Tensor, random: Randomness
) -> tuple[str, str]:
    """What made a step fail, as a sentence, and the layer it belongs to.

    The model is as it was when the step failed, with its gradients; ``value`` is the objective, and
    ``random`` the step's randomness again, to replay it.
    """
    for name, p in model.named_parameters():
        if not _finite(p):
            return f"the parameter {name} became NaN or infinite.", _owner(model, name)
    if error is None and not math.isfinite(value):
        try:
            layer = _first_layer_not_finite(model, X, random) or "the likelihood"
            return f"the objective is NaN or infinite, first in {layer}.", layer
        except NUMERICAL_ERRORS as replayed:
            error = replayed
    if error is not None:
        what = error.what if isinstance(error, CholeskyError) else ""
        names = [part.name for part in model.modules() if isinstance(part, NamedPart)]
        return str(error), next(filter(what.endswith, names), "an unknown layer")
    # What goes wrong in one layer's gradient spreads to the layers before it: the culprit is
    # the one closest to the output, which comes last.
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    wrong = [name for name, g in gradients.items() if not _finite(g.square().sum())]
    name = (wrong or list(gradients))[-1]
    return f"the gradient of {name} is not finite, or too large to be squared.", _owner(model, name)


@torch.no_grad()
def _first_layer_not_finite(model: DeepKernelProcess, X: Tensor, random: Randomness) -> str | None:
    """Algorithm 1 once more, looking at every layer on the way."""
    generator = random.generator or torch.default_generator
    before = generator.get_state()
    for layer, drawn in zip(model.hidden, model.sample_hidden(random), strict=False):
        if not (_finite(drawn.log_ratio) and _finite(drawn.inducing)):
            return layer.name
    generator.set_state(before)
    sample = model.sample(random)
    _, *rows = sample.walk(X, random.rows())
    for layer, values in zip(model.hidden, rows, strict=True):
        if not _finite(values):
            return layer.name
    return None if _finite(sample.output.log_ratio) else model.output.name


def _finite(values: Any) -> bool:
    if isinstance(values, Tensor):
        return bool(torch.isfinite(values).all())
    return all(_finite(value) for value in values)


def _owner(model: DeepKernelProcess, parameter: str) -> str:
    """How people call the part of the model that a parameter belongs to: the innermost that has a
    name."""
    part: nn.Module = model
    found = "the likelihood" if "." in parameter else "the inducing inputs"
    for step in parameter.split(".")[:-1]:
        part = part.get_submodule(step)
        found = part.name if isinstance(part, NamedPart) else found
    return found
