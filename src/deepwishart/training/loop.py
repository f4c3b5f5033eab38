"""The training loop, and the one way into it for all who train on a table."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from deepwishart import bound
from deepwishart._support.arguments import shown, whole_number
from deepwishart._support.lock import locked
from deepwishart.bound import Processes
from deepwishart.model import DeepKernelProcess
from deepwishart.training.checkpoint import Checkpoint, CheckpointStore, fingerprint
from deepwishart.training.deterministic import train_deterministic
from deepwishart.training.guard import explain, step_failed
from deepwishart.training.history import History, ProgressEvent, has_settled
from deepwishart.training.protocol import MakeOptimiser, Protocol, is_deterministic
from deepwishart.training.state import (
    Batch,
    TrainingState,
    given_batches,
    interrupts_noted,
    minibatches,
)

_REASONS = (None, "early_stopping", "interrupt")
# Who has few rows is told beforehand if training will take long.
_FEW_ROWS, _TIMED_STEPS, _LONG_SECONDS = 200, 10, 60.0


def run_training(
    model: DeepKernelProcess,
    X: Tensor,
    y: Tensor,
    protocol: Protocol,
    *,
    checkpoints: CheckpointStore | None = None,
    deterministic: bool = False,
    log_prior: Callable[[DeepKernelProcess], Tensor] | None = None,
    **options: Any,
) -> History:
    """Train ``model`` in place, from the newest checkpoint if there is one.

    Data are ``(N, num_features)`` and ``(N, D)``, standardised; other arguments are those of
    :func:`train`. With ``deterministic``, a model in which nothing is random is trained by L-BFGS,
    which takes seconds and has no checkpoints, with ``log_prior`` added to the bound.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> protocol = Protocol.named("fast", num_rows=20).replace(max_iter=3)
    >>> len(run_training(model, X, X.sin(), protocol, early_stopping=True))
    3
    """
    if deterministic and is_deterministic(model):
        kept = {name: options[name] for name in ("history", "progress") if name in options}
        steps = min(protocol.max_iter, 500)
        return train_deterministic(model, X, y, max_iter=steps, log_prior=log_prior, **kept)
    if len(X) < _FEW_ROWS:
        options["progress"] = _announced(options.get("progress"))
    return train(
        model, X, y, protocol, checkpoints=checkpoints, resume=checkpoints is not None, **options
    )


def _announced(
    progress: Callable[[ProgressEvent], None] | None,
) -> Callable[[ProgressEvent], None]:
    """``progress``, and a warning after the first steps if all of them will take long."""
    seconds: list[float] = []

    def show(event: ProgressEvent) -> None:
        seconds.append(event.history.seconds[-1])
        if len(seconds) == _TIMED_STEPS:
            per_step = (seconds[-1] - seconds[0]) / (_TIMED_STEPS - 1)
            if (left := per_step * (event.total - event.step)) > _LONG_SECONDS:
                warnings.warn(
                    f"Training will take up to {math.ceil(left / 60)} minutes: {event.total:,} "
                    f"steps of {per_step:.2g} seconds. Fewer layers (depth), inducing points or "
                    "steps (max_iter) take less.",
                    stacklevel=2,
                )
        if progress is not None:
            progress(event)

    return show


def train(
    model: DeepKernelProcess,
    X: Tensor | None,
    y: Tensor | None,
    protocol: Protocol | str,
    *,
    batches: Iterable[tuple[Tensor, Tensor]] | None = None,
    num_data: int | None = None,
    optimiser: MakeOptimiser | None = None,
    seed: int = 0,
    history: History | None = None,
    checkpoints: CheckpointStore | None = None,
    resume: bool = False,
    progress: Callable[[ProgressEvent], None] | None = None,
    should_stop: Callable[[History], bool] | None = None,
    early_stopping: bool = False,
    process_group: Any = None,
) -> History:
    r"""Maximise the ELBO, by default with Adam, :math:`\theta \leftarrow \theta + \eta_t\,
    \text{Adam}(\nabla_\theta \text{ELBO}(\theta; w_t))`, with :math:`\eta_t` and :math:`w_t` from
    the protocol.

    The same seed, data and model give the same result on the same machine, library and number of
    threads, also when the run is killed and resumed. A failed step is undone and tried again with
    a smaller learning rate (:func:`deepwishart.training.guard.step_failed`). Ctrl-C ends training
    after the step in hand; a second Ctrl-C drops that step. Inside a ``torch.distributed`` process
    group the rows of each batch are divided among the processes, which exchange sums over rows
    (:func:`deepwishart.elbo`) and then gradients.

    Args:
        model: changed in place.
        X: all inputs ``(N, num_features)``, standardised; ``None`` where ``batches`` are given.
        y: all targets ``(N, D)`` or ``(N,)``, standardised, likewise.
        protocol: how to train, or the name of a ready-made protocol.
        batches: pairs of inputs and targets to go through, over and over again, instead of ``X``
            and ``y``; such a run has no checkpoints.
        num_data: number of rows of the whole data set, needed with ``batches``.
        optimiser: makes a PyTorch optimiser from groups of parameters, such as
            ``torch.optim.SGD``; its learning rates are set from the protocol at every step.
        seed: seed of the Monte Carlo noise and of the order of rows.
        history: record of earlier training to append to; the protocol starts from its beginning.
        checkpoints: where to save the run, and to resume it from. Only rank 0 touches the files.
        resume: continue from the newest checkpoint; start from the beginning if there is none.
        progress: called after every step, on rank 0 only.
        should_stop: called after every step; ``True`` ends training.
        early_stopping: once the bound has stopped rising (:func:`has_settled`), let the learning
            rate fall as the protocol would have done later, and end with it: the bound rises once
            more while the rate falls, which stopping at once would give away.
        process_group: processes that train together; the default group, if one has been
            initialised, when ``None``.

    Returns:
        The history: ``history`` itself if it was given.

    Raises:
        TrainingError: steps keep failing.
        CheckpointError: the checkpoint to resume from cannot be used.
        InUseError: another run works in the directory of the checkpoints.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> model = dw.build("dwp", X, X.sin(), depth=2, num_inducing=5)
    >>> history = train(model, X, X.sin(), Protocol.named("fast", num_rows=20).replace(max_iter=3))
    >>> len(history), history.stopped_by
    (3, 'max_iter')
    """
    data, num_data = _check_data(model, X, y, batches, num_data, checkpoints)
    if isinstance(protocol, str):
        protocol = Protocol.named(protocol, num_data)
    if not isinstance(protocol, Protocol):
        raise ValueError(f"protocol must be a Protocol or the name of one, got {shown(protocol)}.")
    processes = Processes.detect(process_group, model.device)
    # Seeds are drawn, so that the two streams differ from each other and from the stream that
    # the same seed gave when the model was initialised.
    source = torch.Generator().manual_seed(whole_number("seed", seed, 0, most=2**63 - 1))
    state = TrainingState(
        model,
        minibatches(*data, protocol.batch_size) if data else given_batches(batches or ()),
        protocol,
        seeds=torch.randint(2**62, (2,), generator=source).tolist(),
        history=History() if history is None else history,
        make_optimiser=optimiser,
    )
    with locked(checkpoints.directory) if checkpoints and processes.rank == 0 else nullcontext():
        _find_start(state, data, checkpoints, resume, processes)
        history, store = state.history, checkpoints if processes.rank == 0 else None
        state.keep_snapshot()
        save_every = processes.largest(checkpoints.every_steps if checkpoints else 0)
        if should_stop is None or history.stopped_by != "early_stopping":
            history.stopped_by = None
        state.settled_at = state.settled_at if early_stopping else None
        protocol = protocol.settle_at(state.settled_at)

        try:
            with interrupts_noted() as interrupts:
                while history.stopped_by is None and state.step < protocol.max_iter:
                    if not _take_step(state, num_data, protocol, processes, store):
                        continue
                    if progress is not None and processes.rank == 0:
                        progress(ProgressEvent(state.step - 1, protocol.max_iter, history))
                    verdict = (
                        2 if interrupts else int(should_stop is not None and should_stop(history))
                    )
                    if early_stopping and _settles(state, protocol, processes):
                        state.settled_at = state.step
                        protocol = protocol.settle_at(state.step)
                    ended = _ended_by(state) if state.step >= protocol.max_iter else None
                    history.stopped_by = _REASONS[processes.largest(verdict)] or ended
                    if history.stopped_by or (save_every and state.step % save_every == 0):
                        # A resumed run's first snapshot is its checkpoint: the run that goes on
                        # needs the same one, on every process, for both to recover alike.
                        state.keep_snapshot()
                        if store is not None:
                            store.save(state.checkpoint())
        except KeyboardInterrupt:
            history.stopped_by = "interrupt"
        finally:
            state.release_gradients()
        history.stopped_by = history.stopped_by or _ended_by(state)
        return history


def _ended_by(state: TrainingState) -> str:
    return "max_iter" if state.settled_at is None else "early_stopping"


def _settles(state: TrainingState, protocol: Protocol, processes: Processes) -> bool:
    """Whether the bound has stopped rising at the first learning rate."""
    left = protocol.steady_steps - state.step
    if state.settled_at is not None or left <= 0:
        return False
    return bool(processes.largest(has_settled(state.history, state.earlier_steps, left)))


def _take_step(
    state: TrainingState,
    num_data: int,
    protocol: Protocol,
    processes: Processes,
    checkpoints: CheckpointStore | None,
) -> bool:
    """One step on the next batch; ``False`` if it failed and was undone."""
    learning_rate = protocol.learning_rate_at(state.step) * state.step_factor
    kl_weight = protocol.kl_weight_at(state.step)
    batch = state.next_batch()
    before = state.generator.get_state()

    def objective() -> Tensor:
        return bound.elbo(
            state.model,
            *batch,
            num_data=num_data,
            num_samples=protocol.num_samples,
            kl_weight=kl_weight,
            generator=state.generator,
            processes=processes,
        )

    error = state.differentiate(objective)
    processes.mean_(state.buffer)
    elbo, norm = state.buffer[-1].item(), state.gradient.norm().item()
    # Adam squares the gradient.
    if not (math.isfinite(elbo) and norm * norm < torch.finfo(state.gradient.dtype).max):
        replay = torch.Generator(state.model.device).set_state(before)
        random = state.model.randomness(protocol.num_samples, replay)
        where, layer = explain(state.model, error, elbo, batch[0], random)
        step_failed(state, checkpoints, where, layer, learning_rate)
        return False

    state.update(learning_rate)
    state.record(elbo, kl_weight, learning_rate)
    return True


def _find_start(
    state: TrainingState,
    data: Batch | None,
    checkpoints: CheckpointStore | None,
    resume: bool,
    processes: Processes,
) -> None:
    """Set the state to the one to resume, and to the leader's on all processes."""
    state.history.stopped_by = None
    if data and (checkpoints is not None or processes.world > 1):
        state.data = fingerprint(*data)
    if resume and checkpoints is None and processes.rank == 0:
        raise ValueError("resume=True needs checkpoints=CheckpointStore(directory).")
    if checkpoints is not None and processes.rank == 0 and checkpoints.paths():
        if not resume:
            raise ValueError(
                f"{checkpoints.directory} already holds checkpoints of a run. Pass resume=True to "
                "continue it, use another directory, or delete them with checkpoints.clear()."
            )
        if (latest := checkpoints.latest()) is not None:
            state.load(latest)
    if processes.world > 1:
        content = processes.from_leader(state.checkpoint().encode() if processes.rank == 0 else b"")
        state.load(Checkpoint.decode(content, "The state received from rank 0"))


def _check_data(
    model: DeepKernelProcess,
    X: Tensor | None,
    y: Tensor | None,
    batches: Iterable[Batch] | None,
    num_data: int | None,
    checkpoints: CheckpointStore | None,
) -> tuple[Batch | None, int]:
    """The data, where they were given as a whole, and the number of their rows."""
    if batches is None and X is not None and y is not None:
        X, y = model.check_data(X, y)
        model.remember(X, y)
        return (X, y), len(X)
    if batches is None or X is not None or y is not None or num_data is None:
        raise ValueError(
            "train needs either X and y, or batches and num_data, the number of rows of the whole "
            "data set; leave the others None."
        )
    if checkpoints is not None or model.output.needs_rows:
        raise ValueError(
            "Given batches go with neither checkpoints, since such a run cannot be resumed "
            "exactly, nor a collapsed output layer, which needs all rows at every step: pass X and "
            "y, or use build(..., output='inducing') without checkpoints."
        )
    return None, num_data
