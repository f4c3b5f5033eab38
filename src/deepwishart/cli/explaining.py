"""The work of ``deepwishart explain``."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console

from deepwishart import plots
from deepwishart._support.arguments import unknown
from deepwishart._support.files import write_atomically
from deepwishart._support.numbers import plain
from deepwishart.cli.directory import ModelDirectory
from deepwishart.cli.errors import note, note_formulas, plain_warnings, printable
from deepwishart.cli.options import opened
from deepwishart.cli.preparation import targets_of
from deepwishart.cli.scores import table_of
from deepwishart.estimators import DeepKernelClassifier
from deepwishart.estimators.relevance import Dependence, Relevance, dependence
from deepwishart.estimators.table_model import TableModel
from deepwishart.tables import Column, Problems, TableEncoder, TableError, read_labels, read_targets

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
    most: int,
) -> None:
    """Read at most so many rows, explain, print and write; ``table`` says where it is and how to
    read it."""
    saved = ModelDirectory(model).load()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # better to fail before the work than after it
    with opened(*table) as file:
        X, y = _rows(saved, file.read(), columns, most)
    rows = (None, None) if y is None else (saved.inputs(X), targets_of(y))
    with plain_warnings():
        found = saved.regressor.relevance(*rows, groups=column_groups(saved.encoder))
        found = sorted(found, key=lambda one: (-(one.importance or 0.0), one.lengthscale or 0.0))
        if out is not None:
            shown = columns or [each.name for each in found[:_MOST_CURVES]]
            _write(out, found, {name: _curve(saved, X, name) for name in shown}, _outputs(saved))
    headings = "column", "lost without it (nats per row)", "lengthscale"
    title = f"relevance, on {len(X):,} rows"
    Console(highlight=False).print(table_of(relevance_lines(found), *headings, title=title))
    if out is not None:
        print(f"tables and pictures written to {out}")


def relevance_lines(found: Sequence[Relevance]) -> list[list[str]]:
    """As texts: columns, what is lost without them, and lengthscales, where these are known."""
    return [
        [
            printable(each.name, 60),
            ""
            if each.importance is None
            else f"{each.importance:z.3f} ± {each.standard_error:.3f}",
            "" if each.lengthscale is None else plain(each.lengthscale, 3),
        ]
        for each in found
    ]


def _rows(
    saved: TableModel, table: pl.DataFrame, columns: Sequence[str], most: int
) -> tuple[pl.DataFrame, np.ndarray | None]:
    """Encoded rows, at most so many and chosen at random, and their targets if there are any."""
    problems = Problems()
    inputs = [column.name for column in saved.encoder.columns]
    problems += [unknown("input", name, inputs) for name in columns if name not in inputs]
    numbers, y = np.arange(len(table)), None
    if all(target in table.columns for target in saved.targets):
        with problems:
            missing, labels = saved.encoder.missing, None
            if isinstance(saved.regressor, DeepKernelClassifier):
                y, labels = read_labels(table, saved.targets[0], missing)
            else:
                y = read_targets(table, saved.targets, missing)
            numbers = np.flatnonzero(~np.isnan(y).any(1))
            y = y[numbers] if labels is None else np.array(labels)[y[numbers].astype(int)]
    else:
        note(f"the table has no {', '.join(saved.targets)}: no importance, lengthscales only")
    with problems:
        X = saved.encoder.encode(table[numbers], (numbers + 1).tolist())
    problems.settle()
    if len(X) < 2:
        raise TableError("There are fewer than two rows to explain the model with.")
    if len(X) > most:
        chosen = np.sort(np.random.default_rng(0).permutation(len(X))[:most])
        note(f"{most:,} rows of {len(X):,}, chosen at random (--rows changes that)")
        X, y = X[chosen], None if y is None else y[chosen]
    return X, y


def _outputs(saved: TableModel) -> list[str]:
    """What curves of dependence are about: targets, or probabilities of classes."""
    if not isinstance(saved.regressor, DeepKernelClassifier):
        return saved.targets
    labels = [str(label) for label in saved.regressor.classes_]
    return [f"P({label})" for label in (labels[1:] if len(labels) == 2 else labels)]


def _curve(saved: TableModel, X: pl.DataFrame, name: str) -> Curve:
    (column,) = (each for each in saved.encoder.columns if each.name == name)
    places, rows = column_groups(saved.encoder)[name], X.to_numpy()
    values, numbers = _grid(column, rows[:, places])
    averaged = rows[np.linspace(0, len(rows) - 1, min(_AVERAGED, len(rows))).astype(int)]
    return values, dependence(saved.regressor, averaged, places, numbers)


def _grid(column: Column, present: np.ndarray) -> tuple[Values, np.ndarray]:
    """Values to set a column to: as people read them, and as its columns of numbers."""
    values: Values = ["false", "true"]
    if column.kind == "category":
        frequency = present.sum(0)[: len(column.categories)]  # and not of what was missing
        chosen = np.sort(np.argsort(-frequency, kind="stable")[:_MOST_CATEGORIES])
        values = [column.categories[each] for each in chosen]
    elif column.kind == "date":
        elapsed = present[:, column.parts.index("elapsed days")]
        days = pl.Series(np.linspace(elapsed.min(), elapsed.max(), _GRID) + column.origin)
        times = (days * 86_400_000_000).cast(pl.Int64).cast(pl.Datetime("us"))
        values = times.dt.round("1m").to_list()
    elif column.kind == "number":
        every = np.unique(present[:, 0])
        if len(every) > _GRID:
            low, high = np.quantile(present[:, 0], [0.02, 0.98])
            every = np.linspace(low, high, _GRID)
        values = every.tolist()
    encoder = TableEncoder((column,), missing=())
    return values, encoder.encode(pl.DataFrame({column.name: values})).to_numpy()


def _write(
    out: Path, found: Sequence[Relevance], curves: dict[str, Curve], outputs: Sequence[str]
) -> None:
    relevance = pl.DataFrame([each._asdict() for each in found]).rename({"name": "column"})
    records = [
        {
            "target": target,
            "column": name,
            "value": str(value),
            **{key: float(of[place, index]) for key, of in each._asdict().items()},
        }
        for name, (values, each) in curves.items()
        for place, value in enumerate(values)
        for index, target in enumerate(outputs)
    ]
    tables = {"relevance": relevance, "dependence": pl.DataFrame(records)}
    for name, table in tables.items():
        write_atomically(out / f"{name}.csv", table.write_csv())
    note_formulas(*tables.values())
    pictures = {"relevance": plots.relevance(found)}
    for index, target in enumerate(outputs):
        name = "dependence" if index == 0 else f"dependence{index + 1}"
        pictures[name] = plots.partial_dependence(curves, target=target, column=index)
    for name, figure in pictures.items():
        figure.savefig(out / f"{name}.png", dpi=120, metadata={"Software": None})
