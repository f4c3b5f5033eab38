"""Everything that decides how a training run goes on; what a checkpoint holds."""

from __future__ import annotations

import hashlib
import time

import torch
from torch import Tensor

from deepwishart.model import DeepKernelProcess
from deepwishart.training.batches import Batches
from deepwishart.training.checkpoint import MODEL, Checkpoint, CheckpointError
from deepwishart.training.history import History
from deepwishart.training.protocol import MakeOptimiser, Protocol

_OPTIMISER = "optimiser."


class TrainingState:
    """Model, optimiser, randomness and record of a run.

    All gradients are views of one flat buffer whose last element is the objective: one norm checks
    them, one message sums them over processes. The seed is that of the Monte Carlo noise; the
    optimiser is the protocol's Adam if ``make_optimiser`` is ``None``.
    """

    def __init__(
        self,
        model: DeepKernelProcess,
        batches: Batches,
        protocol: Protocol,
        *,
        seed: int,
        history: History,
        make_optimiser: MakeOptimiser | None = None,
    ) -> None:
        self.model, self.batches, self.history = model, batches, history
        self.data = ""  # fingerprint, to recognise a checkpoint of other data
        self.generator = torch.Generator(model.device).manual_seed(seed)
        self.step = 0
        self.settled_at: int | None = None  # where the bound had stopped rising
        # What the guard remembers of failed steps.
        self.step_factor, self.tries = 1.0, 0
        self.earlier_steps = len(history)
        self._start_clock()
        found = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        factors = {n: protocol.rate_factor(n) for n, _ in found}
        self._frozen = [p.requires_grad_(False) for n, p in found if not factors[n]]
        trained = [(n, p) for n, p in found if factors[n]]
        # Parameters of one learning rate stand together: an optimiser has one call for them all.
        self.parameters = dict(sorted(trained, key=lambda item: factors[item[0]]))
        sizes = [p.numel() for p in self.parameters.values()]
        self.buffer = torch.zeros(sum(sizes) + 1, dtype=model.dtype, device=model.device)
        self.gradient = self.buffer[:-1]
        for part, p in zip(self.gradient.split(sizes), self.parameters.values(), strict=True):
            p.grad = part.view_as(p)
        self._factors = sorted({factors[name] for name in self.parameters})
        groups = [
            {"params": [p for n, p in self.parameters.items() if factors[n] == factor]}
            for factor in self._factors
        ]
        self.optimiser = (make_optimiser or protocol.make_optimiser)(groups)

    def update(self, learning_rate: float) -> None:
        """One step of the optimiser with the gradient in the buffer."""
        for group, factor in zip(self.optimiser.param_groups, self._factors, strict=True):
            group["lr"] = factor * learning_rate
        self.optimiser.step()
        self.step += 1

    def record(self, elbo: float, kl_weight: float, learning_rate: float) -> None:
        """Add the step just finished to the history."""
        noise = self.model.likelihood.summary().get("noise", 0.0)
        seconds = time.perf_counter() - self._clock
        number = self.history.step[-1] + 1 if self.history.step else 0
        self.history.append(number, elbo, kl_weight, learning_rate, noise, seconds)

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
        """This state, to be continued from bit for bit."""
        order, position = self.batches.state()
        tensors = {
            **self.tensors(),
            "generator.noise": self.generator.get_state(),
            "generator.order": order,
            "history": self.history.to_tensor(),
        }
        info = {
            "step": self.step,
            "data": self.data,
            "num_batches": self.batches.num_batches,
            "position": position,
            "earlier_steps": self.earlier_steps,
            "settled_at": self.settled_at,
            "stopped_by": self.history.stopped_by,
            "recoveries": self.history.recoveries,
            "caution": {"step_factor": self.step_factor, "tries": self.tries},
        }
        return Checkpoint(tensors, info)

    def load(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint of the same model and data."""
        info, tensors = checkpoint.info, checkpoint.tensors
        if info["data"] != self.data:
            raise CheckpointError(
                "The saved training state belongs to other data than X and y. Train with the same "
                "rows in the same order and scaling, or use another checkpoint directory."
            )
        noise = tensors["generator.noise"]
        if noise.shape != self.generator.get_state().shape:
            raise CheckpointError(
                "The checkpoint was written on another kind of device, whose random numbers "
                f"{self.model.device} cannot continue. Resume on the same kind of device."
            )
        self.load_tensors(tensors)
        self.generator.set_state(noise)
        same = info["num_batches"] == self.batches.num_batches
        self.batches.load(
            tensors["generator.order"], info["position"] if same else self.batches.num_batches
        )
        self.history.load_tensor(tensors["history"])
        self.history.stopped_by = info["stopped_by"]
        self.history.recoveries = list(info["recoveries"])
        self.step, self.settled_at = info["step"], info.get("settled_at")
        self.earlier_steps = info["earlier_steps"]
        self.step_factor, self.tries = (info["caution"][key] for key in ("step_factor", "tries"))
        self._start_clock()

    def _start_clock(self) -> None:
        past = self.history.seconds[-1] if self.history.seconds else 0.0
        self._clock = time.perf_counter() - past


def fingerprint(*tensors: Tensor) -> str:
    """SHA-256 over shapes and values."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(repr(tuple(tensor.shape)).encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
