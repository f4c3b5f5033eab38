"""The work of ``deepwishart explain``."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from deepwishart import plots
from deepwishart._support.arguments import unknown
from deepwishart._support.files import write_atomically
from deepwishart._support.numbers import plain
from deepwishart.cli.directory import ModelDirectory, SavedModel
from deepwishart.cli.errors import note, plain_warnings, printable
from deepwishart.cli.scores import table_of
from deepwishart.cli.table_options import opened
from deepwishart.estimators import DeepKernelClassifier
from deepwishart.estimators.relevance import Dependence, Relevance, dependence
from deepwishart.tables import Column, Problems, TableEncoder, TableError, read_labels, read_targets
from deepwishart.tables.dates import parts_of

__all__ = ["column_groups", "relevance_lines", "run_explain"]

_GRID = 12  # values of a number
_MOST_CATEGORIES = 12
_AVERAGED = 30  # rows that a dependence is averaged over
_MOST_CURVES = 12

Values = Sequence[float] | Sequence[str] | Sequence[datetime.datetime]
Curve = tuple[Values, Dependence]  # what a column was set to, and the predictions that came of it


def column_groups(encoder: TableEncoder) -> dict[str, list[int]]:
    """The columns of numbers of each column of the table.

    >>> table = TableEncoder((Column("c", "category", ("a", "b")), Column("x", "number")))
    >>> column_groups(table)
    {'c': [0, 1], 'x': [2]}
    """
    groups, start = {}, 0
    for column in encoder.columns:
        groups[column.name] = list(range(start, start + len(column.feature_names)))
        start += len(column.feature_names)
    return groups


def run_explain(
    model: Path,
    table: tuple[Path, str | None, str | None, str | None],
    out: Path | None,
    columns: Sequence[str],
    *,
    rows: int,
    repeats: int,
    seed: int,
    as_json: bool,
) -> None:
    """Read, explain, print and write; ``table`` says where it is and how to read it."""
    saved = ModelDirectory(model).load()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # better to fail before the work than after it
    with opened(*table) as file:
        X, y = _rows(saved, file.read(), columns, rows, seed)
    with plain_warnings():
        found = saved.regressor.relevance(
            None if y is None else saved.inputs(X),
            y[:, 0] if y is not None and saved.regressor._single_column else y,
            groups=column_groups(saved.encoder),
            n_repeats=repeats,
            random_state=seed,
        )
        found = sorted(found, key=lambda one: (-(one.importance or 0.0), one.lengthscale or 0.0))
        shown = columns or [each.name for each in found[:_MOST_CURVES]]
        curves = {name: _curve(saved, X, name) for name in shown}
    outputs = _outputs(saved)
    records = list(_dependence_records(curves, outputs))
    if out is not None:
        _write(out, found, curves, records, outputs)
    if as_json:
        facts = {"rows": len(X), "relevance": [each._asdict() for each in found]}
        print(json.dumps({**facts, "dependence": records}, indent=2, allow_nan=False))
        return
    title, lost = "relevance", []
    if y is not None:
        title, lost = f"relevance, on {len(X):,} rows", ["lost without it (nats per row)"]
    lines = relevance_lines(found, scored=y is not None)
    relevance = table_of(lines, "column", *lost, "lengthscale", title=title)
    Console(highlight=False).print(relevance)
    if out is not None:
        print(f"tables and pictures written to {out}")


def relevance_lines(found: Sequence[Relevance], *, scored: bool = True) -> list[list[str]]:
    """As texts: columns, what is lost without them if that is known, and lengthscales."""
    return [
        [
            printable(each.name, 60),
            *([f"{each.importance:z.3f} ± {each.standard_error:.3f}"] if scored else []),
            "" if each.lengthscale is None else plain(each.lengthscale, 3),
        ]
        for each in found
    ]


def _rows(
    saved: SavedModel, table: pl.DataFrame, columns: Sequence[str], most: int, seed: int
) -> tuple[pl.DataFrame, np.ndarray | None]:
    """Encoded rows, at most so many and chosen at random, and their targets if there are any."""
    problems = Problems()
    inputs = [column.name for column in saved.encoder.columns]
    problems += [unknown("input", name, inputs) for name in columns if name not in inputs]
    numbers, y = np.arange(len(table)), None
    if all(target in table.columns for target in saved.targets):
        with problems:
            y, classes = _targets(saved, table)
            numbers = np.flatnonzero(~np.isnan(y).any(1))
            y = y[numbers] if classes is None else np.array(classes)[y[numbers].astype(int)]
    else:
        note(f"the table has no {', '.join(saved.targets)}: no importance, lengthscales only")
    X = None
    with problems:
        X = saved.encoder.encode(table[numbers], (numbers + 1).tolist())
    problems.settle()
    assert X is not None
    if len(X) < 2:
        raise TableError("There are fewer than two rows to explain the model with.")
    if len(X) > most:
        chosen = np.sort(np.random.default_rng(seed).permutation(len(X))[:most])
        note(f"{most:,} rows of {len(X):,}, chosen at random (--rows changes that)")
        X, y = X[chosen], None if y is None else y[chosen]
    return X, y


def _targets(saved: SavedModel, table: pl.DataFrame) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Targets as numbers, NaN where one is missing, and the labels of classes."""
    if isinstance(saved.regressor, DeepKernelClassifier):
        return read_labels(table, saved.targets[0], saved.encoder.missing)
    return read_targets(table, saved.targets, saved.encoder.missing), None


def _outputs(saved: SavedModel) -> list[str]:
    """What curves of dependence are about: targets, or probabilities of classes."""
    if not isinstance(saved.regressor, DeepKernelClassifier):
        return saved.targets
    labels = [str(label) for label in saved.regressor.classes_]
    return [f"P({label})" for label in (labels[1:] if len(labels) == 2 else labels)]


def _curve(saved: SavedModel, X: pl.DataFrame, name: str) -> Curve:
    (column,) = (each for each in saved.encoder.columns if each.name == name)
    places = column_groups(saved.encoder)[name]
    labels, values = _grid(column, X.to_numpy()[:, places])
    rows = X.to_numpy()[np.linspace(0, len(X) - 1, min(_AVERAGED, len(X))).astype(int)]
    return labels, dependence(saved.regressor, rows, places, values)


def _grid(column: Column, present: np.ndarray) -> tuple[Values, np.ndarray]:
    """Values to set a column to: as people read them, and as its columns of numbers."""
    if column.kind == "category":
        counts = present.sum(0)
        chosen = np.sort(np.argsort(-counts, kind="stable")[:_MOST_CATEGORIES])
        return [column.categories[each] for each in chosen], np.eye(len(counts))[chosen]
    if column.kind == "boolean":
        return ["false", "true"], np.array([[0.0], [1.0]])
    if column.kind == "date":
        return _date_grid(column, present)
    every = np.unique(present)
    if len(every) > _GRID:
        low, high = np.quantile(present, [0.02, 0.98])
        every = np.linspace(low, high, _GRID)
    return every.tolist(), every[:, None]


def _date_grid(column: Column, present: np.ndarray) -> tuple[Values, np.ndarray]:
    """Times at equal distances, if the column says when; else rows as they are."""
    if "elapsed days" not in column.parts:
        every = np.unique(present, axis=0)[:_GRID]
        return [", ".join(plain(value) for value in row) for row in every], every
    elapsed = present[:, column.parts.index("elapsed days")]
    days = pl.DataFrame({"days": np.linspace(elapsed.min(), elapsed.max(), _GRID)})
    days = days.select(pl.col("days") + column.origin)
    parts = parts_of(pl.col("days"), column.origin)
    values = days.select(parts[part].alias(part) for part in column.parts).to_numpy()
    times = (days["days"] * 86_400_000_000).cast(pl.Int64).cast(pl.Datetime("us"))
    return times.dt.round("1m").to_list(), values


def _dependence_records(
    curves: dict[str, Curve], targets: Sequence[str]
) -> Iterator[dict[str, Any]]:
    for name, (values, found) in curves.items():
        for (place, value), (index, target) in product(enumerate(values), enumerate(targets)):
            yield {
                **({"target": target} if len(targets) > 1 else {}),
                "column": name,
                "value": str(value) if isinstance(value, datetime.datetime) else value,
                **{key: float(of[place, index]) for key, of in found._asdict().items()},
            }


def _write(
    out: Path,
    found: Sequence[Relevance],
    curves: dict[str, Curve],
    records: Sequence[dict[str, Any]],
    targets: Sequence[str],
) -> None:
    relevance = pl.DataFrame([each._asdict() for each in found]).rename({"name": "column"})
    texts = [{**record, "value": str(record["value"])} for record in records]
    for name, table in (("relevance", relevance), ("dependence", pl.DataFrame(texts))):
        write_atomically(out / f"{name}.csv", table.write_csv())
    pictures = {}
    if any(each.importance is not None or each.lengthscale is not None for each in found):
        pictures["relevance"] = plots.relevance(found)
    for index, target in enumerate(targets):
        name = "dependence" if index == 0 else f"dependence{index + 1}"
        pictures[name] = plots.partial_dependence(curves, target=target, column=index)
    for name, figure in pictures.items():
        figure.savefig(out / f"{name}.png", dpi=120, metadata={"Software": None})
