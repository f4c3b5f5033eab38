"""How to train: number of steps, learning rate, KL annealing, samples, batches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from deepwishart._support.arguments import check_choice, number, shown, tensor, whole_number
from deepwishart._support.parameters import KINDS
from deepwishart.model import DeepKernelProcess

MakeOptimiser = Callable[[Any], torch.optim.Optimizer]
SCHEDULES = ("step", "constant", "flat")


@dataclass(frozen=True)
class Protocol:
    r"""Adam's learning rate :math:`\eta_t` and the factor :math:`w_t` on the KL term at step t:

    .. math:: \eta_t = \begin{cases}
              \eta_0 \text{ if } t < T/2, \text{ else } \eta_T & \text{``step''} \\
              \eta_0 & \text{``constant''} \\
              \eta_0 \text{ if } t < T/2, \text{ then linearly to } \eta_T & \text{``flat''}
              \end{cases}
              \qquad w_t = \min(1, t / T_\text{KL})

    Steps are counted from 0.

    Args:
        max_iter: number of steps :math:`T`.
        learning_rate: first learning rate :math:`\eta_0`.
        final_learning_rate: last learning rate :math:`\eta_T`; a constant schedule ignores it.
        schedule: ``"step"``, ``"constant"`` or ``"flat"``.
        kl_anneal: number of steps :math:`T_\text{KL}` over which :math:`w_t` rises from 0 to 1;
            0 for no annealing.
        num_samples: posterior samples per step.
        batch_size: largest number of rows per step, or ``None`` for all rows.
        factors: on the learning rate of some kinds of parameters: of the ``"kernel"`` and the
            likelihood, of the learned ``"scale"`` of a Wishart posterior, of ``"inducing"`` inputs,
            or of the rest of the ``"posterior"``; 0 leaves them as they are.
        betas: Adam's.

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
    factors: Mapping[str, float] = field(default_factory=dict)
    betas: tuple[float, float] = (0.9, 0.999)

    def __post_init__(self) -> None:
        given = vars(self)
        checked: dict[str, Any] = {n: whole_number(n, given[n], k) for n, k in _LEAST.items()}
        checked |= {n: number(n, given[n]) for n in ("learning_rate", "final_learning_rate")}
        if self.batch_size is not None:
            checked["batch_size"] = whole_number("batch_size", self.batch_size, also="None or ")
        check_choice("schedule", self.schedule, SCHEDULES)
        if not isinstance(self.factors, Mapping):
            raise ValueError(f"factors must be a dictionary, got {shown(self.factors)}.")
        for kind, factor in self.factors.items():
            check_choice("kind of parameter", kind, KINDS)
            if number(f"The factor of {kind}", factor, low=-math.inf) < 0:
                raise ValueError(f"The factor of {kind} must be 0 or more, got {factor}.")
        betas = tensor("betas", self.betas)
        if betas.shape != (2,) or not bool(((betas >= 0) & (betas < 1)).all()):
            raise ValueError(
                f"betas must be two numbers from 0 to below 1, got {shown(self.betas)}."
            )
        # Frozen, and not yet made: this is where numbers of other libraries become plain ones.
        given.update(checked, betas=tuple(map(float, self.betas)))

    @classmethod
    def named(cls, name: str, num_rows: int) -> Protocol:
        """A ready-made protocol for a data set of ``num_rows`` rows.

        ``"paper"`` is the paper's (Section "Results"): 20,000 steps, learning rate 1e-2 and, for
        the second half, 1e-3. ``"fast"`` is made for the collapsed output layer, with which it
        reaches a similar bound in a tenth of the steps. ``"converged"`` is for the table of all the
        paper's results: more steps, a longer fade-in, and kernels at the rate of the rest, so that
        hidden layers are not given up early (docs, "Choosing"). Both leave a learned scale where it
        starts. All three use all rows of a small data set at every step, and minibatches otherwise.
        """
        check_choice("protocol", name, _PROTOCOLS)
        small = whole_number("num_rows", num_rows) <= _LARGEST_FULL_BATCH
        return _PROTOCOLS[name].replace(batch_size=None if small else _MINIBATCH)

    def replace(self, **changes: Any) -> Protocol:
        """A copy with some fields changed."""
        for name in changes:
            check_choice("protocol field", name, [field.name for field in dataclasses.fields(self)])
        return dataclasses.replace(self, **changes)

    def learning_rate_at(self, step: int) -> float:
        r"""Learning rate :math:`\eta_t` at step ``step``, from 0."""
        first, last = self.learning_rate, self.final_learning_rate
        if self.schedule == "step":
            return first if 2 * step < self.max_iter else last
        if self.schedule == "constant":
            return first
        fraction = min(step / max(self.max_iter - 1, 1), 1.0)
        return first + (last - first) * max(2.0 * fraction - 1.0, 0.0)

    @property
    def steady_steps(self) -> int:
        """Number of steps at the first learning rate."""
        return self.max_iter if self.schedule == "constant" else (self.max_iter + 1) // 2

    def settle_at(self, step: int | None) -> Protocol:
        """The learning rate falls from step ``step`` on; with a constant schedule training ends
        there.

        >>> Protocol.named("paper", num_rows=500).settle_at(3_000).max_iter
        6000
        """
        if step is None:
            return self
        return self.replace(max_iter=step if self.schedule == "constant" else 2 * step)

    def kl_weight_at(self, step: int) -> float:
        r"""Factor :math:`w_t` on the KL term at step ``step``, from 0."""
        return 1.0 if step >= self.kl_anneal else step / self.kl_anneal

    def make_optimiser(self, groups: Any) -> torch.optim.Optimizer:
        """Adam, as one fused operation where PyTorch has it."""
        return torch.optim.Adam(groups, betas=self.betas, fused=True)


_LEAST = {"max_iter": 1, "kl_anneal": 0, "num_samples": 1}

# The one table of numbers.
_PROTOCOLS = {
    "paper": Protocol(20_000, 1e-2, 1e-3, "step", kl_anneal=1_000),
    "fast": Protocol(
        500,
        5e-2,
        1e-4,
        "flat",
        kl_anneal=100,
        factors={"kernel": 3.0, "scale": 0.0},
        betas=(0.9, 0.99),
    ),
}
_PROTOCOLS["converged"] = _PROTOCOLS["fast"].replace(
    max_iter=2_000, kl_anneal=500, factors={"scale": 0.0}
)
_LARGEST_FULL_BATCH, _MINIBATCH = 2_000, 1_000
COLLAPSED_ROWS = 20_000  # all rows win at 10,741 and lose at 41,157: benchmarks/minibatch.py
_WORK = 1e8  # samples times inducing points squared times rows of a step on all rows
ALL_ROWS = 1_500  # up to here a single layer has all rows for inducing points
_FEWEST = 100
_SHALLOW_WORK = 4e8  # largest P^2 N of a single layer with more rows
_DEEP_WORK = 2e7  # and of hidden layers, of which many samples are drawn
_PAPER_MIXING = 0.018  # sigmoid(-4), where the paper's experiments start


def model_options(protocol: Protocol | str, num_rows: int, output: str = "auto") -> dict[str, Any]:
    """Options of :func:`deepwishart.build` that go with a protocol.

    The paper's protocol has the paper's output layer and starting value of q. Otherwise the output
    layer, if ``"auto"``, is collapsed as long as all rows are visited at every step.

    >>> model_options("fast", 500), model_options("paper", 500)["output"]
    ({'output': 'collapsed'}, 'inducing')
    """
    paper = protocol == "paper"
    if output == "auto":
        small = num_rows <= COLLAPSED_ROWS
        whole = not isinstance(protocol, Protocol) or (protocol.batch_size or num_rows) >= num_rows
        output = "collapsed" if small and whole and not paper else "inducing"
    return {"output": output, "mixing": _PAPER_MIXING} if paper else {"output": output}


def inducing_points(num_rows: int, depth: int, collapsed: bool = True) -> int:
    r"""The number P of inducing points that pays, at a cost of about :math:`P^2 N` per step.

    A single integrated layer has all rows up to 1,500, when it is the exact Gaussian process, and
    then as many as keep :math:`P^2 N` at 4e8. Hidden layers have as many as keep it at 2e7, and
    no more than half of the rows. There are at least 100, as far as there are rows; and no more
    where the output layer is learned.

    >>> [inducing_points(1_000, depth) for depth in (1, 2)], inducing_points(300, 2)
    ([1000, 141], 150)
    """
    if depth == 1 and collapsed and num_rows <= ALL_ROWS:
        return num_rows
    work = 0.0 if not collapsed else _SHALLOW_WORK if depth == 1 else _DEEP_WORK
    affordable = math.isqrt(int(work / num_rows))
    return min(num_rows, max(_FEWEST, min(affordable, num_rows if depth == 1 else num_rows // 2)))


def adjust_protocol(
    protocol: Protocol | str,
    num_rows: int,
    *,
    max_iter: int | None = None,
    learning_rate: float | None = None,
    batch_size: int | str | None = "auto",
    kl_anneal: int | None = None,
    num_samples: int | None = None,
    output: str = "inducing",
    num_inducing: int = 100,
) -> Protocol:
    """A protocol for ``num_rows`` rows with some of its numbers changed.

    What is ``None`` stays as the protocol has it. With another ``max_iter`` the annealing, and
    with another ``learning_rate`` the final learning rate, keep their proportion to it.

    Args:
        protocol: a protocol, or the name of a ready-made one.
        num_rows: number of training rows.
        batch_size: rows per step; ``"auto"``: the protocol's; ``None``: all.
        num_samples: posterior samples per step. A named protocol on all rows of a large data set,
            or with many inducing points, takes fewer than its own, since these make up for samples.
        output: the model's output layer; ``"collapsed"`` needs all rows at every step.
        num_inducing: the model's inducing points.

    >>> adjust_protocol("paper", 300, max_iter=2000).kl_anneal
    100
    """
    base = Protocol.named(protocol, num_rows) if isinstance(protocol, str) else protocol
    changes: dict[str, Any] = {}
    if output == "collapsed":
        base, batch_size = base.replace(batch_size=None), None
        if isinstance(protocol, str):  # fewer samples of more rows: about as much work per step
            affordable = int(_WORK / (num_rows * max(num_inducing, 1) ** 2))
            even = affordable - affordable % 2  # threads share samples: no odd one out
            changes["num_samples"] = min(base.num_samples, max(2, even))
    if max_iter is not None:
        anneal = round(base.kl_anneal * max_iter / base.max_iter)
        changes |= {"max_iter": max_iter, "kl_anneal": anneal}
    if learning_rate is not None:
        final = base.final_learning_rate * learning_rate / base.learning_rate
        changes |= {"learning_rate": learning_rate, "final_learning_rate": final}
    given = {"kl_anneal": kl_anneal, "num_samples": num_samples}
    changes |= {name: value for name, value in given.items() if value is not None}
    size = base.batch_size if isinstance(batch_size, str) else batch_size
    changes["batch_size"] = None if size is None or size >= num_rows else size
    return base.replace(**changes)


def is_deterministic(model: DeepKernelProcess) -> bool:
    """Whether the bound is a plain function of the parameters: one layer, integrated out."""
    return not model.hidden and model.output.needs_rows
