"""How to train: number of steps, learning rate, KL annealing, samples, batches."""

from __future__ import annotations

import dataclasses
import difflib
import math
import operator
from dataclasses import dataclass
from typing import Any

__all__ = ["Protocol"]

SCHEDULES = ("step", "cosine", "constant")


@dataclass(frozen=True)
class Protocol:
    r"""Adam's learning rate :math:`\eta_t` and the factor :math:`w_t` on the KL term at step t:

    .. math:: \eta_t = \begin{cases}
              \eta_0 \text{ if } t < T/2, \text{ else } \eta_T & \text{``step''} \\
              \eta_T + \tfrac12 (\eta_0 - \eta_T) (1 + \cos(\pi t / (T-1))) & \text{``cosine''} \\
              \eta_0 & \text{``constant''} \end{cases}
              \qquad w_t = \min(1, t / T_\text{KL})

    Steps are counted from 0.

    Args:
        max_iter: number of steps :math:`T`.
        learning_rate: first learning rate :math:`\eta_0`.
        final_learning_rate: last learning rate :math:`\eta_T`; a constant schedule ignores it.
        schedule: ``"step"``, ``"cosine"`` or ``"constant"``.
        kl_anneal: number of steps :math:`T_\text{KL}` over which :math:`w_t` rises from 0 to 1;
            0 for no annealing.
        num_samples: posterior samples per step.
        batch_size: largest number of rows per step, or ``None`` for all rows.
        clip_norm: largest norm of the gradient, or ``None`` for no limit.

    >>> protocol = Protocol.named("paper", num_rows=500)
    >>> protocol.learning_rate_at(9_999), protocol.learning_rate_at(10_000)
    (0.01, 0.001)
    >>> protocol.replace(max_iter=100).kl_weight_at(50)
    0.05
    """

    max_iter: int
    learning_rate: float
    final_learning_rate: float
    schedule: str
    kl_anneal: int
    num_samples: int = 10
    batch_size: int | None = None
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        for name, smallest in (("max_iter", 1), ("kl_anneal", 0), ("num_samples", 1)):
            self._set(name, _whole_number(name, getattr(self, name), smallest))
        for name in ("learning_rate", "final_learning_rate"):
            self._set(name, _positive_number(name, getattr(self, name)))
        if self.batch_size is not None:
            self._set("batch_size", _whole_number("batch_size", self.batch_size, 1, "or None"))
        if self.clip_norm is not None:
            self._set("clip_norm", _positive_number("clip_norm", self.clip_norm, "or None"))
        if self.schedule not in SCHEDULES:
            raise ValueError(_unknown("schedule", self.schedule, SCHEDULES))

    @classmethod
    def named(cls, name: str, num_rows: int) -> Protocol:
        """A ready-made protocol for a data set of ``num_rows`` rows.

        ``"paper"`` is the paper's (Section "Results"): 20,000 steps, learning rate 1e-2 and, for
        the second half, 1e-3. ``"fast"`` reaches a similar bound in far fewer steps with a cosine
        schedule. Both use all rows of a small data set at every step, and minibatches otherwise.
        """
        if name not in _PROTOCOLS:
            raise ValueError(_unknown("protocol", name, tuple(_PROTOCOLS)))
        small = _whole_number("num_rows", num_rows, 1) <= _LARGEST_FULL_BATCH
        return _PROTOCOLS[name].replace(batch_size=None if small else _MINIBATCH)

    def replace(self, **changes: Any) -> Protocol:
        """A copy with some fields changed."""
        fields = tuple(field.name for field in dataclasses.fields(self))
        for name in changes:
            if name not in fields:
                raise ValueError(_unknown("protocol field", name, fields))
        return dataclasses.replace(self, **changes)

    def learning_rate_at(self, step: int) -> float:
        r"""Learning rate :math:`\eta_t` at step ``step``, from 0."""
        first, last = self.learning_rate, self.final_learning_rate
        if self.schedule == "step":
            return first if 2 * step < self.max_iter else last
        if self.schedule == "cosine":
            fraction = min(step / max(self.max_iter - 1, 1), 1.0)
            return last + 0.5 * (first - last) * (1.0 + math.cos(math.pi * fraction))
        return first

    def kl_weight_at(self, step: int) -> float:
        r"""Factor :math:`w_t` on the KL term at step ``step``, from 0."""
        return 1.0 if step >= self.kl_anneal else step / self.kl_anneal

    def _set(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)


def _whole_number(name: str, value: Any, smallest: int, alternative: str = "") -> int:
    wanted = f"{name} must be a whole number of at least {smallest} {alternative}".rstrip()
    if isinstance(value, bool):
        raise ValueError(f"{wanted}, got {value}.")
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{wanted}, got {value!r}.") from None
    if number < smallest:
        raise ValueError(f"{wanted}, got {number}.")
    return number


def _positive_number(name: str, value: Any, alternative: str = "") -> float:
    wanted = f"{name} must be a positive number {alternative}".rstrip()
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{wanted}, got {value!r}.") from None
    if not (number > 0 and math.isfinite(number)):
        raise ValueError(f"{wanted}, got {number}.")
    return number


def _unknown(what: str, name: object, choices: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(str(name), choices, n=1, cutoff=0.3)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"Unknown {what} {name!r}; choose from {', '.join(choices)}.{hint}"


# The one table of numbers.
_PROTOCOLS = {
    "paper": Protocol(20_000, 1e-2, 1e-3, "step", kl_anneal=1_000, num_samples=10),
    "fast": Protocol(3_000, 3e-2, 1e-4, "cosine", kl_anneal=300, num_samples=10),
}
_LARGEST_FULL_BATCH, _MINIBATCH = 2_000, 1_000
