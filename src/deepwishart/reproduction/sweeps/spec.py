"""What a run is, what all runs of a sweep have in common, and lists of runs."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deepwishart._support.arguments import check_choice

DEVICES = ("cpu", "cuda", "auto")
# Fields of a ModelSpec that a run or its data decide.
_DECIDED = ("num_features", "num_outputs", "process", "depth")


@dataclass(frozen=True, order=True)
class RunSpec:
    """One run of a sweep: a process (see :func:`deepwishart.build`) of so many layers, the output
    layer included, trained with a protocol (see :meth:`deepwishart.training.Protocol.named`) on a
    published split of a data set. Two runs are the same if and only if all seven fields are.

    Args:
        seed: of initialisation, training and evaluation.
        settings_version: of the settings it is made with, see :func:`settings_version`.

    >>> RunSpec("yacht", 3, "dwp", 2, settings_version="4e1f20c3").key
    'yacht-split03-dwp-depth2-seed0-paper-4e1f20c3'
    """

    dataset: str
    split: int
    process: str
    depth: int
    seed: int = 0
    protocol: str = "paper"
    settings_version: str = ""

    @property
    def key(self) -> str:
        """A name for files and folders."""
        version = f"-{self.settings_version}" if self.settings_version else ""
        return (
            f"{self.dataset}-split{self.split:02d}-{self.process}-depth{self.depth}"
            f"-seed{self.seed}-{self.protocol}{version}"
        )

    def __str__(self) -> str:
        seed = f" seed {self.seed}" if self.seed else ""
        return f"{self.dataset} split {self.split} {self.process} depth {self.depth}{seed}"

    def to_dict(self) -> dict[str, Any]:
        """The seven fields, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunSpec:
        """The run that a mapping with (at least) the seven fields describes."""
        return cls(**{name: values[name] for name in cls.__annotations__})


@dataclass(frozen=True)
class Settings:
    """What decides the results of all runs of a sweep, besides their specification.

    Args:
        model: fields of a :class:`deepwishart.ModelSpec` that are not to have their default value;
            the output layer is the protocol's, unless it is among them.
        max_iter: training steps, with KL annealing in proportion; the protocol's if ``None``.
        num_samples: posterior samples per training step; the protocol's if ``None``.
        elbo_samples: posterior samples for the final ELBO.
        test_samples: posterior samples for predictions.
        learning_rate: the first one, the last in proportion; the protocol's if ``None``.
        start: where hidden layers start, ``"inputs"`` or ``"prior"``, see
            :func:`deepwishart.build`.

    >>> Settings({"num_inducing": 50}).elbo_samples
    1000
    """

    model: Mapping[str, Any] = field(default_factory=dict)
    max_iter: int | None = None
    num_samples: int | None = None
    elbo_samples: int = 1000
    test_samples: int = 100
    learning_rate: float | None = None
    start: str = "inputs"

    def __post_init__(self) -> None:
        if self.learning_rate is not None and not 0.0 < self.learning_rate < math.inf:
            raise ValueError(f"learning_rate must be a positive number, got {self.learning_rate}.")


def settings_version(settings: Settings, protocol: Mapping[str, Any]) -> str:
    """A short name for settings together with the fields of a
    :class:`deepwishart.training.Protocol`: others have another one.

    What has its default value is left out, so that a setting that is added one day does not change
    the versions of runs that were made without it. The size of batches depends on the data and is
    left out, too.

    >>> fast = {"max_iter": 2_000, "learning_rate": 0.05}
    >>> settings_version(Settings(), fast) == settings_version(Settings(num_samples=3), fast)
    False
    """
    from deepwishart.training import Protocol

    asked = {**vars(settings), **settings.model}
    del asked["model"]
    # The output layer is asked for, or else the protocol's: it has no default of its own.
    usual = {**model_defaults(), **defaults(Settings), "output": None}
    content = []
    for values, known in ((asked, usual), (dict(protocol), defaults(Protocol))):
        values.pop("batch_size", None)
        plain = json.loads(json.dumps(values))
        content.append({k: v for k, v in plain.items() if k not in known or known[k] != v})
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def defaults(owner: type) -> dict[str, Any]:
    """The default values of a dataclass, as JSON has them.

    >>> defaults(Execution)
    {'threads': 1, 'device': 'cpu', 'checkpoint_every': 500}
    """
    found = {}
    for each in dataclasses.fields(owner):
        if each.default_factory is not dataclasses.MISSING:
            found[each.name] = each.default_factory()
        elif each.default is not dataclasses.MISSING:
            found[each.name] = each.default
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def model_defaults() -> dict[str, Any]:
    """The default values of those fields of a :class:`deepwishart.ModelSpec` that are the same for
    all runs of a sweep."""
    from deepwishart.spec import ModelSpec

    return {name: value for name, value in defaults(ModelSpec).items() if name not in _DECIDED}


@dataclass(frozen=True)
class Execution:
    """How a run is carried out: its threads, its device (``"cpu"``, ``"cuda"``, or ``"auto"`` for
    CUDA where there is any), and the number of steps between checkpoints. This changes its duration
    but, up to rounding, not its results."""

    threads: int = 1
    device: str = "cpu"
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        check_choice("device", self.device, DEVICES)


def parse_numbers(texts: Iterable[str], what: str = "splits") -> tuple[int, ...]:
    """Whole numbers from texts such as ``"0-19"``, ``"0,3,5"`` and ``"7"``, sorted, each once;
    errors say what they count.

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
    settings_version: str = "",
) -> list[RunSpec]:
    """All combinations, split by split: a sweep that is cut short has whole rows of the table.

    Args:
        num_splits: names of the data sets, with their numbers of splits.
        splits: numbers of splits, of which each data set uses those that it has; all if ``None``.
        processes, depths, seeds, protocol, settings_version: as in :class:`RunSpec`.

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
        RunSpec(dataset, split, process, depth, seed, protocol, settings_version)
        for split, dataset, depth, process, seed in combinations
        if split < num_splits[dataset]
    ]
