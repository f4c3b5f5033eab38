"""The training loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from deepwishart.models.deep_kernel_process import DeepKernelProcess
from deepwishart.noise import Noise
from deepwishart.training.batches import Minibatches
from deepwishart.training.checkpoint import Checkpoint, CheckpointStore
from deepwishart.training.distributed import Parallel
from deepwishart.training.guard import NUMERICAL_ERRORS, Guard, explain
from deepwishart.training.history import History
from deepwishart.training.interrupt import InterruptWatch
from deepwishart.training.progress import ProgressEvent
from deepwishart.training.protocol import Protocol
from deepwishart.training.state import TrainingState, fingerprint

__all__ = ["train"]

_GO_ON, _EARLY_STOPPING, _INTERRUPT = range(3)
_REASONS = {_GO_ON: None, _EARLY_STOPPING: "early_stopping", _INTERRUPT: "interrupt"}


def train(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    protocol: Protocol | str,
    *,
    seed: int = 0,
    history: History | None = None,
    checkpoints: CheckpointStore | None = None,
    resume: bool = False,
    progress: Callable[[ProgressEvent], None] | None = None,
    should_stop: Callable[[History], bool] | None = None,
    process_group: Any = None,
) -> History:
    r"""Maximise the ELBO with Adam, :math:`\theta \leftarrow \theta + \eta_t\,
    \text{Adam}(\nabla_\theta \text{ELBO}(\theta; w_t))`, with :math:`\eta_t` and :math:`w_t` from
    the protocol.

    The same seed, data, model and number of threads give the same result bit for bit, also when
    the run is killed and resumed. A failed step is undone and tried again with a smaller learning
    rate, see :class:`deepwishart.training.guard.Guard`. Ctrl-C ends training after the step in
    hand; a second Ctrl-C drops that step. Inside a ``torch.distributed`` process group the rows of
    each batch are divided among the processes, see :mod:`deepwishart.training.distributed`.

    Args:
        model: changed in place.
        X: all inputs ``(N, num_features)``, standardised.
        y: all targets ``(N, D)`` or ``(N,)``, standardised.
        protocol: how to train, or the name of a ready-made protocol.
        seed: seed of the Monte Carlo noise and of the order of rows.
        history: record of earlier training to append to; the protocol starts from its beginning.
        checkpoints: where to save the run, and to resume it from. Only rank 0 touches the files.
        resume: continue from the newest checkpoint; start from the beginning if there is none.
        progress: called after every step, on rank 0 only.
        should_stop: called after every step; ``True`` ends training.
        process_group: processes that train together; the default group, if one has been
            initialised, when ``None``.

    Returns:
        The history: ``history`` itself if it was given.

    Raises:
        TrainingError: steps keep failing.
        CheckpointError: the checkpoint to resume from cannot be used.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> history = train(model, X, X.sin(), Protocol.named("fast", num_rows=20).replace(max_iter=3))
    >>> len(history), history.stopped_by
    (3, 'max_iter')
    """
    X, y = _check_data(model, X, y)
    if isinstance(protocol, str):
        protocol = Protocol.named(protocol, X.shape[0])
    parallel = Parallel.detect(process_group)
    history = History() if history is None else history
    state = _new_state(model, X.shape[0], protocol, seed, history)
    save_every = _start(state, (X, y), checkpoints, resume, parallel)
    store = checkpoints if parallel.leads else None
    guard = Guard(state, store)
    if should_stop is None or history.stopped_by != "early_stopping":
        history.stopped_by = None

    try:
        with InterruptWatch() as interrupt:
            while history.stopped_by is None and state.step < protocol.max_iter:
                if not _take_step(state, X, y, protocol, parallel, guard):
                    continue
                if progress is not None and parallel.leads:
                    progress(_event(state, protocol))
                verdict = _EARLY_STOPPING if should_stop and should_stop(history) else _GO_ON
                verdict = _INTERRUPT if interrupt.requested else verdict
                history.stopped_by = _REASONS[parallel.largest(verdict, model.device)]
                if history.stopped_by is None and state.step == protocol.max_iter:
                    history.stopped_by = "max_iter"
                if history.stopped_by or (save_every and state.step % save_every == 0):
                    _save(state, store, guard)
    except KeyboardInterrupt:
        history.stopped_by = "interrupt"
    finally:
        state.release_gradients()
    history.stopped_by = history.stopped_by or "max_iter"
    return history


def _take_step(
    state: TrainingState,
    X: Tensor,
    y: Tensor,
    protocol: Protocol,
    parallel: Parallel,
    guard: Guard,
) -> bool:
    """One step of Adam on the next batch; ``False`` if it failed and was undone."""
    learning_rate = protocol.learning_rate_at(state.step) * guard.step_factor
    kl_weight = protocol.kl_weight_at(state.step)
    rows = state.batches.next_rows()
    batch = (X, y) if rows is None else (X[rows], y[rows])
    before = state.noise.get_state()

    error = _gradient(state, batch, X.shape[0], protocol.num_samples, kl_weight, parallel)
    elbo, norm = state.buffer[-1].item(), state.gradient.norm().item()
    # Adam squares the gradient.
    if not (math.isfinite(elbo) and norm * norm < torch.finfo(state.gradient.dtype).max):
        replay = torch.Generator(state.model.device).set_state(before)
        noise = Noise(protocol.num_samples, replay, state.model.dtype, state.model.device)
        where, layer = explain(state.model, error, elbo, batch[0], noise)
        guard.step_failed(where, layer, learning_rate)
        return False

    if protocol.clip_norm is not None and norm > protocol.clip_norm:
        state.gradient.mul_(protocol.clip_norm / norm)
    state.update(learning_rate)
    state.record(elbo, kl_weight, learning_rate)
    guard.step_passed()
    return True


def _gradient(
    state: TrainingState,
    batch: tuple[Tensor, Tensor],
    num_data: int,
    num_samples: int,
    kl_weight: float,
    parallel: Parallel,
) -> Exception | None:
    """Put the objective and minus its gradient, summed over processes, into the buffer.

    A numerical error is returned, not raised, with NaN in the buffer: all processes have to
    take part in the sum, and learn from it.
    """
    error: Exception | None = None
    state.buffer.zero_()
    try:
        elbo = parallel.elbo(
            state.model,
            *batch,
            num_data=num_data,
            num_samples=num_samples,
            kl_weight=kl_weight,
            generator=state.noise,
        )
        if elbo.requires_grad:
            (-elbo).backward()
        state.buffer[-1] = elbo.detach()
    except NUMERICAL_ERRORS as found:
        error = found
        state.buffer.fill_(math.nan)
    parallel.sum_(state.buffer)
    return error


def _new_state(
    model: DeepKernelProcess, num_rows: int, protocol: Protocol, seed: int, history: History
) -> TrainingState:
    # Seeds are drawn, so that the two streams differ from each other and from the stream that
    # the same seed gave when the model was initialised.
    source = torch.Generator().manual_seed(seed)
    noise_seed, order_seed = torch.randint(2**62, (2,), generator=source).tolist()
    batches = Minibatches(num_rows, protocol.batch_size, order_seed)
    return TrainingState(model, batches, seed=noise_seed, history=history)


def _start(
    state: TrainingState,
    data: tuple[Tensor, Tensor],
    checkpoints: CheckpointStore | None,
    resume: bool,
    parallel: Parallel,
) -> int:
    """Resume if asked to, and give all processes the leader's state.

    Returns:
        Number of steps between checkpoints, 0 for none; the same on all processes.
    """
    state.history.stopped_by = None
    if checkpoints is not None or parallel.world > 1:
        state.data = fingerprint(*data)
    if parallel.leads:
        _resume(state, checkpoints, resume)
    if parallel.world > 1:
        content = state.checkpoint().encode() if parallel.leads else b""
        content = parallel.from_leader(content, state.model.device)
        state.load(Checkpoint.decode(content, "The state received from rank 0"))
    every = 0 if checkpoints is None else checkpoints.every_steps
    return parallel.largest(every, state.model.device)


def _resume(state: TrainingState, checkpoints: CheckpointStore | None, resume: bool) -> None:
    if checkpoints is None:
        if resume:
            raise ValueError("resume=True needs checkpoints=CheckpointStore(directory).")
        return
    if not resume:
        if checkpoints.paths():
            raise ValueError(
                f"{checkpoints.directory} already holds checkpoints of a run. Pass resume=True to "
                "continue it, use another directory, or delete them with checkpoints.clear()."
            )
        return
    latest = checkpoints.latest()
    if latest is not None:
        state.load(latest)


def _save(state: TrainingState, store: CheckpointStore | None, guard: Guard) -> None:
    # A resumed run's first snapshot is its checkpoint: the run that goes on needs the same one,
    # on every process, for both to recover alike.
    guard.keep_snapshot()
    if store is not None:
        store.save(state.checkpoint())


def _event(state: TrainingState, protocol: Protocol) -> ProgressEvent:
    last = state.history
    return ProgressEvent(
        state.step - 1,
        protocol.max_iter,
        last.elbo[-1],
        last.kl_weight[-1],
        last.learning_rate[-1],
        last.noise[-1],
        last.seconds[-1],
    )


def _check_data(model: DeepKernelProcess, X: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    X = model.check_inputs(X)
    if not isinstance(y, Tensor):
        raise ValueError(f"y must be a tensor, got {type(y).__name__}.")
    y = model.check_targets(y, X.shape[0])
    if X.shape[0] == 0:
        raise ValueError("X has no rows to train on.")
    for name, values in (("X", X), ("y", y)):
        if not torch.isfinite(values).all():
            raise ValueError(f"{name} has NaN or infinite values; remove or impute them.")
    return X, y
