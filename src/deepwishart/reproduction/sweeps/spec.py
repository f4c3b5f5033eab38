"""What a run is, what all runs of a sweep have in common, and lists of runs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Execution", "RunSpec", "Settings", "expand", "parse_numbers"]

DTYPES = ("float64", "float32")
OUTPUTS = ("auto", "inducing", "collapsed")
DEVICES = ("cpu", "cuda", "auto")


@dataclass(frozen=True, order=True)
class RunSpec:
    """One run of a sweep. Two runs are the same if and only if all six fields are.

    Args:
        dataset: name of the data set.
        split: number of the published split.
        process: name of the process, see :func:`deepwishart.build`.
        depth: number of layers, the output layer included.
        seed: seed of initialisation, training and evaluation.
        protocol: name of the training protocol, see
            :meth:`deepwishart.training.Protocol.named`.

    >>> RunSpec("yacht", 3, "dwp", 2).key
    'yacht-split03-dwp-depth2-seed0-paper'
    """

    dataset: str
    split: int
    process: str
    depth: int
    seed: int = 0
    protocol: str = "paper"

    @property
    def key(self) -> str:
        """A name for files and folders."""
        return (
            f"{self.dataset}-split{self.split:02d}-{self.process}-depth{self.depth}"
            f"-seed{self.seed}-{self.protocol}"
        )

    @property
    def kind(self) -> tuple[str, str, int, str]:
        """Runs of one kind take about the same time."""
        return self.dataset, self.process, self.depth, self.protocol

    def __str__(self) -> str:
        seed = f" seed {self.seed}" if self.seed else ""
        return f"{self.dataset} split {self.split} {self.process} depth {self.depth}{seed}"

    def to_dict(self) -> dict[str, Any]:
        """The six fields, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunSpec:
        """The run that a mapping with (at least) the six fields describes."""
        kinds = cls.__annotations__
        for name, kind in kinds.items():
            if type(values[name]).__name__ != kind:
                raise TypeError(f"{name} must be of type {kind}, got {values[name]!r}.")
        return cls(**{name: values[name] for name in kinds})


@dataclass(frozen=True)
class Settings:
    """What decides the results of all runs of a sweep, besides their specification.

    Args:
        num_inducing: number of inducing points.
        max_iter: number of training steps, with KL annealing in proportion; the protocol's if
            ``None``.
        kernel: name of the kernel.
        dtype: ``"float64"`` or ``"float32"``.
        output: the output layer, ``"inducing"`` or ``"collapsed"``; the protocol's if ``"auto"``.
        elbo_samples: posterior samples for the final ELBO.
        test_samples: posterior samples for predictions.

    >>> Settings().elbo_samples, Settings().test_samples
    (1000, 100)
    """

    num_inducing: int = 100
    max_iter: int | None = None
    kernel: str = "squared_exponential"
    dtype: str = "float64"
    output: str = "auto"
    elbo_samples: int = 1000
    test_samples: int = 100

    def __post_init__(self) -> None:
        _check(self, dtype=DTYPES, output=OUTPUTS)


@dataclass(frozen=True)
class Execution:
    """How a run is carried out; this changes its duration but, up to rounding, not its results.

    Args:
        threads: threads of one run.
        device: ``"cpu"``, ``"cuda"``, or ``"auto"`` for CUDA where there is any.
        checkpoint_every: number of steps between checkpoints.
    """

    threads: int = 1
    device: str = "cpu"
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        _check(self, device=DEVICES)


def parse_numbers(texts: Iterable[str], what: str = "splits") -> tuple[int, ...]:
    """Whole numbers from texts such as ``"0-19"``, ``"0,3,5"`` and ``"7"``, sorted, each once.

    Args:
        texts: one or more such texts.
        what: what the numbers count, for errors.

    >>> parse_numbers(["0-3", "7,5"])
    (0, 1, 2, 3, 5, 7)
    """
    numbers: set[int] = set()
    for part in itertools.chain.from_iterable(text.split(",") for text in texts):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(
                f"{what}: {part!r} is neither a whole number nor a range; write 0-19 or 0,3,5."
            )
        begin, end = int(first), int(last) if dash else int(first)
        if end < begin:
            raise ValueError(f"{what}: the range {part!r} ends before it begins.")
        numbers.update(range(begin, end + 1))
    return tuple(sorted(numbers))


def expand(
    num_splits: Mapping[str, int],
    *,
    processes: Sequence[str],
    depths: Sequence[int],
    splits: Sequence[int] | None = None,
    seeds: Sequence[int] = (0,),
    protocol: str = "paper",
) -> list[RunSpec]:
    """All combinations, split by split: a sweep that is cut short has whole rows of the table.

    Args:
        num_splits: names of the data sets, with their numbers of splits.
        processes: names of processes.
        depths: numbers of layers.
        splits: numbers of splits, of which each data set uses those that it has; all if ``None``.
        seeds: seeds.
        protocol: name of the training protocol.

    >>> runs = expand({"yacht": 20, "protein": 5}, processes=["dwp"], depths=[2], splits=[4, 5])
    >>> [(run.dataset, run.split) for run in runs]
    [('yacht', 4), ('protein', 4), ('yacht', 5)]
    """
    chosen = range(max(num_splits.values())) if splits is None else splits
    for split in chosen:
        if split >= max(num_splits.values()):
            has = ", ".join(f"{name} has {number}" for name, number in num_splits.items())
            raise ValueError(f"No data set has a split {split} (they count from 0; {has}).")
    for name, number in num_splits.items():
        if min(chosen) >= number:
            raise ValueError(f"{name} has splits 0 to {number - 1}, none of which was asked for.")
    combinations = itertools.product(chosen, num_splits, depths, processes, seeds)
    return [
        RunSpec(dataset, split, process, depth, seed, protocol)
        for split, dataset, depth, process, seed in combinations
        if split < num_splits[dataset]
    ]


def _check(owner: Settings | Execution, **choices: tuple[str, ...]) -> None:
    """Numbers are at least one, names are among their choices."""
    for name, value in vars(owner).items():
        if isinstance(value, int) and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
        if name in choices and value not in choices[name]:
            raise ValueError(f"{name} must be one of {', '.join(choices[name])}, got {value!r}.")
