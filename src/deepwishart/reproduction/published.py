"""The paper's numbers (Ober and Aitchison 2021, appendix, the three tables of results).

They are in ``published.json``, with their citation; nothing else in the package repeats them.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any, NamedTuple

from deepwishart.reproduction.datasets import CATALOGUE

STEPS = 20_000  # of the paper's training
METRICS = ("elbo", "test_log_likelihood", "seconds_per_epoch")


class Published(NamedTuple):
    """A published mean over splits, its standard error, which is ``None`` where the paper gives
    none, the number of decimals that both are printed with, and the number of splits."""

    mean: float
    standard_error: float | None
    decimals: int
    num_splits: int = 20


def published(metric: str, dataset: str, process: str, depth: int) -> Published | None:
    """The paper's ``"elbo"``, ``"test_log_likelihood"`` or ``"seconds_per_epoch"`` (the metric) for
    so many layers, the output layer included; ``None`` where it has none.

    >>> published("elbo", "yacht", "dwp", 2)
    Published(mean=2.02, standard_error=0.01, decimals=2, num_splits=20)
    >>> published("elbo", "yacht", "dwp", 7) is None
    True
    """
    content = _content()
    cell = content["tables"][metric].get(f"{dataset} {process}", {}).get(str(depth))
    if not cell:
        return None
    mean, error = cell
    return Published(mean, error, content["decimals"][metric], CATALOGUE[dataset].num_splits)


def published_kinds(metric: str) -> list[tuple[str, int]]:
    """Data sets and depths of one of the paper's tables, in its order.

    >>> published_kinds("seconds_per_epoch")
    [('boston', 2), ('boston', 5), ('protein', 2), ('protein', 5)]
    """
    rows = _content()["tables"][metric]
    own = [name for name in rows if name.endswith(" dwp")]
    return [(name.removesuffix(" dwp"), int(depth)) for name in own for depth in rows[name]]


def highlighted(metric: str, dataset: str, depth: int) -> str:
    """Which of ``"dwp"`` and ``"dgp"`` the paper highlights as significantly better; ``""`` if
    neither."""
    cells = _content()["highlighted"].get(metric, {})
    return next((p for p in cells if depth in cells[p].get(dataset, [])), "")


def citation() -> str:
    """Where the numbers are from."""
    return str(_content()["citation"])


@functools.cache
def _content() -> Any:
    return json.loads(resources.files(__package__).joinpath("published.json").read_text("utf-8"))
