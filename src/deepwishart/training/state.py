"""Everything that decides how a training run goes on: what a snapshot and a checkpoint hold."""

from __future__ import annotations

import functools
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import torch
from torch import Tensor

from deepwishart._support.parameters import declared
from deepwishart.bound import NUMERICAL_ERRORS
from deepwishart.model import DeepKernelProcess
from deepwishart.training.checkpoint import MODEL, Checkpoint, CheckpointError
from deepwishart.training.history import History
from deepwishart.training.protocol import MakeOptimiser, Protocol

SNAPSHOT_EVERY = 50  # steps between copies of the last good state, in memory
_REGROWTH = 1.2  # of a reduced learning rate, per snapshot
_OPTIMISER = "optimiser."
# What else a checkpoint has of a state, as JSON.
_PLAIN = (
    "step",
    "visited",
    "order_seed",
    "data",
    "earlier_steps",
    "settled_at",
    "step_factor",
    "tries",
)

Batch = tuple[Tensor, Tensor]
#: A step's inputs and targets, given the seed of the order of rows and the number of earlier ones.
Batches = Callable[[int, int], Batch]


def minibatches(X: Tensor, y: Tensor, batch_size: int | None) -> Batches:
    r"""A new random order every epoch, cut into :math:`\lceil N / B \rceil` batches whose sizes
    differ by at most one.

    The largest has B rows, ``batch_size``; ``None`` is for all at once, in their own order. A batch
    depends on nothing but the seed and its number.
    """
    count = math.ceil(len(X) / min(batch_size or len(X), len(X)))

    @functools.lru_cache(maxsize=1)
    def epoch_rows(seed: int) -> tuple[Tensor, ...]:
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))
        return order.tensor_split(count)

    def batch(seed: int, number: int) -> Batch:
        epoch, index = divmod(number, count)
        rows = epoch_rows(seed + epoch)[index] if count > 1 else slice(None)
        return X[rows], y[rows]

    return batch


def given_batches(batches: Iterable[Batch]) -> Batches:
    """Pairs of inputs and targets of somebody else's making, such as a data loader's; over again
    when they end. What cannot be started again is an error then."""

    def over_and_over() -> Iterator[Batch]:
        found = None
        while True:
            for found in batches:
                yield found
            if found is None:
                raise ValueError("The batches have come to an end and cannot be started again.")
            found = None

    following = over_and_over()
    return lambda seed, number: next(following)


class TrainingState:
    """Model, optimiser, randomness and record of a run.

    All gradients are views of one flat buffer whose last element is the objective: one norm checks
    them, one message averages them over processes. The seeds are those of the Monte Carlo noise and
    of the order of rows; the optimiser is the protocol's Adam if ``make_optimiser`` is ``None``.
    """

    def __init__(
        self,
        model: DeepKernelProcess,
        batches: Batches,
        protocol: Protocol,
        *,
        seeds: Sequence[int] = (0, 0),
        history: History,
        make_optimiser: MakeOptimiser | None = None,
    ) -> None:
        self.model, self.batches, self.history = model, batches, history
        self.data = ""  # fingerprint, to recognise a checkpoint of other data
        noise_seed, self.order_seed = seeds
        self.generator = torch.Generator(model.device).manual_seed(noise_seed)
        self.step = self.visited = 0  # finished steps, and batches they and failed ones have had
        self.settled_at: int | None = None  # where the bound had stopped rising
        self.step_factor, self.tries = 1.0, 0  # what failed steps have led to
        self.earlier_steps = len(history.step)
        self._start_clock()

        found: dict[float, dict[str, torch.nn.Parameter]] = {}
        for name, p, about in declared(model):
            if p.requires_grad:
                factor = protocol.factors.get(about.kind, 1.0)
                found.setdefault(factor, {})[name] = p
        self._frozen = [p.requires_grad_(False) for p in found.pop(0.0, {}).values()]
        # Parameters of one learning rate stand together: an optimiser has one call for them all.
        self._factors = sorted(found)
        self.parameters = {n: p for factor in self._factors for n, p in found[factor].items()}
        sizes = [p.numel() for p in self.parameters.values()]
        self.buffer = torch.zeros(sum(sizes) + 1, dtype=model.dtype, device=model.device)
        self.gradient = self.buffer[:-1]
        for part, p in zip(self.gradient.split(sizes), self.parameters.values(), strict=True):
            p.grad = part.view_as(p)
        groups = [{"params": list(found[factor].values())} for factor in self._factors]
        self.optimiser = (make_optimiser or protocol.make_optimiser)(groups)

    def _start_clock(self) -> None:
        """Seconds go on from those of the last step."""
        self._began = time.perf_counter() - (self.history.seconds or [0.0])[-1]

    def next_batch(self) -> Batch:
        """Inputs and targets of the next step."""
        self.visited += 1
        return self.batches(self.order_seed, self.visited - 1)

    def differentiate(self, objective: Callable[[], Tensor]) -> Exception | None:
        """Put an objective and minus its gradient into the buffer. A numerical error is returned,
        not raised, with NaN in the buffer: where several processes average theirs, all take part
        and learn from it."""
        self.buffer.zero_()
        try:
            value = objective()
            if value.requires_grad:
                (-value).backward()
            self.buffer[-1] = value.detach()
        except NUMERICAL_ERRORS as error:
            self.buffer.fill_(math.nan)
            return error
        return None

    def update(self, learning_rate: float) -> None:
        """One step of the optimiser with the gradient in the buffer."""
        for group, factor in zip(self.optimiser.param_groups, self._factors, strict=True):
            group["lr"] = factor * learning_rate
        self.optimiser.step()
        self.step += 1

    def record(self, elbo: float, kl_weight: float, learning_rate: float) -> None:
        """Add the step just finished to the history; now and then it counts as good."""
        noise = self.model.likelihood.noise_level()
        number = self.history.step[-1] + 1 if self.history.step else 0
        seconds = time.perf_counter() - self._began
        self.history.append(number, elbo, kl_weight, learning_rate, noise, seconds)
        if self.step % SNAPSHOT_EVERY == 0:
            self.step_factor, self.tries = min(1.0, self.step_factor * _REGROWTH), 0
            self.keep_snapshot()

    def keep_snapshot(self) -> None:
        """Remember the present state as good."""
        copies = {name: value.clone() for name, value in self.tensors().items()}
        self._snapshot = (self.step, copies)

    def restore(self) -> None:
        """Go back to the last snapshot; randomness and rows go on."""
        self.step, tensors = self._snapshot
        self.load_tensors(tensors)
        self.history.truncate(self.earlier_steps + self.step)

    def release_gradients(self) -> None:
        """Let go of the gradients when training ends, and of what was kept fixed for it."""
        for p in self.parameters.values():
            p.grad = None
        for kept in self._frozen:
            kept.requires_grad_(True)

    def tensors(self) -> dict[str, Tensor]:
        """Model and optimiser, by name; not copied."""
        found = {MODEL + name: value for name, value in self.model.state_dict().items()}
        for name, p in self.parameters.items():
            for key, value in self.optimiser.state.get(p, {}).items():
                if isinstance(value, Tensor):
                    found[f"{_OPTIMISER}{key}.{name}"] = value
        return found

    @torch.no_grad()
    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Set model and optimiser to copies of :meth:`tensors`."""
        Checkpoint(tensors, {}).load_into(self.model)
        moments: dict[int, dict[str, Tensor]] = {}
        numbers = {name: index for index, name in enumerate(self.parameters)}
        for label, value in tensors.items():
            if label.startswith(_OPTIMISER):  # none before the first step
                key, name = label.removeprefix(_OPTIMISER).split(".", 1)
                moments.setdefault(numbers[name], {})[key] = value.clone()
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": moments, "param_groups": groups})

    def checkpoint(self) -> Checkpoint:
        """This state, to be continued from as if the run had not stopped."""
        tensors = {**self.tensors(), "generator": self.generator.get_state()}
        info = {name: getattr(self, name) for name in _PLAIN}
        return Checkpoint(tensors, {**info, "history": self.history.to_dict()})

    def load(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint of the same model and data."""
        info, tensors = checkpoint.info, checkpoint.tensors
        if info["data"] != self.data:
            raise CheckpointError(
                "The saved training state belongs to other data than X and y. Train with the same "
                "rows in the same order and scaling, or use another checkpoint directory."
            )
        noise = tensors["generator"]
        if noise.shape != self.generator.get_state().shape:
            raise CheckpointError(
                "The checkpoint was written on another kind of device, whose random numbers "
                f"{self.model.device} cannot continue. Resume on the same kind of device."
            )
        self.load_tensors(tensors)
        self.generator.set_state(noise)
        vars(self.history).update(vars(History.from_dict(info["history"])))
        for name in _PLAIN:
            setattr(self, name, info[name])
        self._start_clock()


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
