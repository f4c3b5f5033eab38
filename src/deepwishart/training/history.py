"""What happened during training, step by step."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from deepwishart._support.arguments import whole_number

COLUMNS = ("step", "elbo", "kl_weight", "learning_rate", "noise", "seconds")
STOPPED_BY = (None, "max_iter", "early_stopping", "converged", "interrupt", "error")


@dataclass
class History:
    """One entry per finished step in each of six lists.

    Args:
        step: number of the step, from 0.
        elbo: objective of the step: ELBO per data point with the step's ``kl_weight``, estimated
            from the step's batch and samples.
        kl_weight: factor on the KL term.
        learning_rate: Adam's learning rate.
        noise: noise standard deviation after the step, averaged over target columns.
        seconds: training time since step 0, time before a resume included.
        stopped_by: why training ended: ``"max_iter"`` (all steps done), ``"early_stopping"``,
            ``"converged"`` (L-BFGS has found a maximum), ``"interrupt"`` (Ctrl-C), ``"error"`` (a
            :class:`~deepwishart.training.TrainingError`), or ``None`` while it runs.
        recoveries: steps that failed and were tried again from an earlier state.
        tried: models that were trained before one was kept, each with its ``likelihood``,
            ``depth``, ``num_inducing``, ``elbo``, ``standard_error``, ``steps`` and ``seconds``;
            empty where there was no choice.

    >>> history = History()
    >>> for step in range(4):
    ...     history.append(step, float(step), 1.0, 1e-2, 0.3, 0.1 * step)
    >>> len(history), history.elbo_smoothed(2)
    (4, [0.0, 0.5, 1.5, 2.5])
    """

    step: list[int] = field(default_factory=list)
    elbo: list[float] = field(default_factory=list)
    kl_weight: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stopped_by: str | None = None
    recoveries: list[int] = field(default_factory=list)
    tried: list[dict[str, Any]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.step)

    def append(self, *row: float) -> None:
        """Add one finished step: a number for each of the six lists, in their order."""
        for name, value in zip(COLUMNS, row, strict=True):
            getattr(self, name).append(value)

    def truncate(self, length: int) -> None:
        """Forget all but the first ``length`` steps."""
        for name in COLUMNS:
            del getattr(self, name)[length:]

    def elbo_smoothed(self, window: int) -> list[float]:
        """ELBO averaged over the last ``window`` steps (fewer at the start), one value per step."""
        whole_number("window", window)
        sums = [0.0, *itertools.accumulate(self.elbo)]
        ends = range(1, len(sums))
        return [(sums[end] - sums[max(end - window, 0)]) / min(window, end) for end in ends]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> History:
        """The inverse of :meth:`to_dict`."""
        missing = [name for name in COLUMNS if name not in values]
        if missing:
            raise ValueError(f"This is not a training history: it has no {', '.join(missing)}.")
        lengths = {name: len(values[name]) for name in COLUMNS}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"The columns of a training history differ in length: {lengths}.")
        stopped_by = values.get("stopped_by")
        if stopped_by not in STOPPED_BY:
            raise ValueError(f"stopped_by must be one of {STOPPED_BY}, got {stopped_by!r}.")
        columns = {name: list(values[name]) for name in COLUMNS}
        lists = {name: list(values.get(name, [])) for name in ("recoveries", "tried")}
        return cls(**columns, stopped_by=stopped_by, **lists)

    def to_tensor(self) -> Tensor:
        """The six lists as the columns of a float64 tensor, which keeps every bit of them."""
        rows = [[float(value) for value in getattr(self, name)] for name in COLUMNS]
        return torch.tensor(rows, dtype=torch.float64).mT.contiguous()

    def load_tensor(self, values: Tensor) -> None:
        """Set the six lists from :meth:`to_tensor`."""
        for name, column in zip(COLUMNS, values.mT.tolist(), strict=True):
            setattr(self, name, column)
        self.step = [int(step) for step in self.step]
