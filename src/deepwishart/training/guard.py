"""A step that fails, or is cut off by Ctrl-C, never reaches the parameters."""

from __future__ import annotations

import math
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from deepwishart.model import DeepKernelProcess
from deepwishart.random import Randomness
from deepwishart.training.checkpoint import CheckpointStore
from deepwishart.training.distributed import NUMERICAL_ERRORS
from deepwishart.training.state import TrainingState

SNAPSHOT_EVERY = 50  # steps between copies of the last good state, in memory
MAX_TRIES = 10  # failures without reaching the next snapshot before giving up
_REGROWTH = 1.2  # of a reduced learning rate, per snapshot


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


class Guard:
    """Drops failed steps, goes back to the last good state and tries again more carefully.

    A step fails when its objective or gradient is not finite, or a matrix in it cannot be
    factorised. Parameters, optimiser, step number and history then go back to the last snapshot
    (at most :data:`SNAPSHOT_EVERY` steps ago), the learning rate is halved, and training goes on
    with fresh noise. A halved learning rate grows back by a fifth every :data:`SNAPSHOT_EVERY`
    steps. After :data:`MAX_TRIES` failures without reaching the next multiple of
    :data:`SNAPSHOT_EVERY` steps, :class:`TrainingError` ends training.

    When it gives up, it leaves the last good state in ``checkpoints``, if there are any.
    """

    def __init__(self, state: TrainingState, checkpoints: CheckpointStore | None = None) -> None:
        self.state = state
        self.checkpoints = checkpoints
        self.keep_snapshot()

    def keep_snapshot(self) -> None:
        """Remember the present state as good."""
        copies = {name: value.clone() for name, value in self.state.tensors().items()}
        self._snapshot = (self.state.step, copies)

    def step_passed(self) -> None:
        """To be called after every good step."""
        state = self.state
        if state.step % SNAPSHOT_EVERY == 0:
            state.step_factor, state.tries = min(1.0, state.step_factor * _REGROWTH), 0
            self.keep_snapshot()

    def step_failed(self, where: str, layer: str, learning_rate: float) -> None:
        """Go back and be more careful, or give up; ``where`` is :func:`explain`'s sentence."""
        state, failed = self.state, self.state.step
        state.history.recoveries.append(failed)
        self.restore()
        state.step_factor *= 0.5
        state.tries += 1
        if state.tries >= MAX_TRIES:
            self._give_up(failed, where, layer, learning_rate)

    def restore(self) -> None:
        """Go back to the last snapshot."""
        step, tensors = self._snapshot
        self.state.load_tensors(tensors)
        self.state.step = step
        self.state.history.truncate(self.state.earlier_steps + step)

    def _give_up(self, failed: int, where: str, layer: str, learning_rate: float) -> None:
        state, path = self.state, None
        state.history.stopped_by = "error"
        state.step_factor, state.tries = 1.0, 0  # whoever resumes has changed something
        message = (
            f"Training stopped at step {failed}: {where} This was failure {MAX_TRIES} in a row, "
            f"with a learning rate reduced to {learning_rate:.1e}. Lower the learning rate, use "
            "float64 or a larger jitter, and check that X and y are standardised. The model has "
            f"been set back to its last good state, after {state.step} steps"
        )
        if self.checkpoints is not None:
            path = self.checkpoints.save(state.checkpoint())
            message += f", which is also saved in {path}"
        raise TrainingError(f"{message}.", step=failed, layer=layer, last_good=path)


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
        names = [layer.name for layer in [*model.hidden, model.output]]
        # "layer 1" must not be found in "layer 12".
        named = [name for name in names if re.search(rf"{name}\b", str(error))]
        return str(error), str(named[0]) if named else "an unknown layer"
    # What goes wrong in one layer's gradient spreads to the layers before it: the culprit is
    # the one closest to the output, which comes last.
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    for name, gradient in reversed(gradients.items()):
        if not _finite(gradient):
            return f"the gradient of {name} is NaN or infinite.", _owner(model, name)
    name = max(gradients, key=lambda name: float(gradients[name].abs().max()))
    return f"the gradient of {name} is too large to be squared.", _owner(model, name)


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
    """How people call the part of the model that a parameter belongs to."""
    if parameter.startswith("layers."):
        return model.hidden[int(parameter.split(".")[1])].name
    if parameter.startswith("output."):
        return model.output.name
    return "the likelihood" if parameter.startswith("likelihood.") else "the inducing inputs"


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """While active, Ctrl-C only adds to the given list, so that a step can be finished first.

    A second Ctrl-C raises :class:`KeyboardInterrupt` at once, as usual. Nothing changes outside
    the main thread, or where the program handles or ignores the signal itself.
    """
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if noted:
            signal.default_int_handler(number, frame)
        noted.append(number)

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ours = usual and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
