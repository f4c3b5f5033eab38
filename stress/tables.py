"""Damaged and odd tables, for ``fit`` and ``predict``."""

from __future__ import annotations

import datetime
import io
import json
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from stress.cases import Failed, Outcome
from stress.command import Ended, check_predictions, command, judge
from stress.damage import damage_bytes

__all__ = ["ENCODINGS", "SUITE", "base_columns", "fit"]

TINY = ["--inducing", "3", "--samples", "1", "--max-iter", "2", "--depth", "2", "--quiet"]
_TARGET = "price"
TARGETS = (_TARGET, _TARGET, "colour")  # numbers, and classes
CELLS = (
    *("", " ", "NA", "n/a", "?", "null", "nan", "inf", "-inf", "Infinity", "1e308", "-1e308"),
    *("1e309", "1e-320", "9" * 400, "-" + "9" * 30, "0x10", "1,5", "1_000", "1 000", "$5", "5%"),
    *("+1", ".5", "1.", "1e", "--", "TRUE", "yes", "\u0663", "\uff11\uff12", "\u00bd", "\u22121"),
    *("2021-01-01", "12:30", "None", "[1]", "{}"),
    *("\x00", "\x1b[2J", "\x07", "a\nb", 'say "so"', "'", '"', "\\", "=1+1", "x" * 10_000),
    *("\ufeff", "\u202e", "\U0001f600", "e\u0301"),
)
NAMES = (
    *("", " ", "x", "x ", "X", _TARGET, "mean", "std", "q0.5", "^x.*$", "*", "\x1b[2J", "a\nb"),
    *("n" * 5000, "x_duplicated_0", "colour=red", "\ufeffx", "\u202e", '"', ",", "\t", "\x00"),
    *("[bold]x[/]", "--out", "0", "nan", "../x", "{x}", "%s", "\U0001f600"),
)
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "latin-1", "cp037", "utf-8-sig", "utf-7")


def base_columns(num_rows: int = 30) -> dict[str, list[object]]:
    """Numbers, counts, categories and truth values, and a target that depends on them."""
    random = np.random.default_rng(0)
    x, size = random.uniform(-2, 2, num_rows), random.integers(1, 9, num_rows)
    colour = random.choice(["red", "gr\u00fcn", "blue"], num_rows)
    price = 100 + 30 * np.sin(x) + 10 * (colour == "red") + random.normal(size=num_rows)
    new = random.random(num_rows) < 0.5
    columns = {"x": x, "size": size, "colour": colour, "new": new, _TARGET: price}
    return {name: values.tolist() for name, values in columns.items()}


class Tables:
    """Tables for a model to be fitted to, or for a fitted one to predict."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """A model for each target."""
        self.folder.mkdir(exist_ok=True)
        pl.DataFrame(base_columns()).write_csv(self.folder / "base.csv")
        for target in set(TARGETS):
            if (ended := fit(self.folder / "base.csv", target, self.folder / target)).code:
                raise Failed(ended.err)

    def run(self, rng: random.Random, folder: Path) -> Outcome:
        """One table, fitted or predicted for."""
        what, path = make_table(rng, folder)
        what, target = f"{path.suffix}: {what}", rng.choice(TARGETS)
        if rng.random() < 0.6:
            ended = command("predict", self.folder / target, path)
            if judge(ended) == "accepted":
                check_predictions(ended.out)
            return Outcome(what, judge(ended))
        options = ["--impute", "median"] if rng.random() < 0.3 else []
        options += ["--holdout", rng.choice(("0", "0.2"))]
        if judge(fit(path, target, folder / "out", *options)) == "refused":
            return Outcome(what, "refused")
        again = command("predict", folder / "out", path)
        if judge(again) == "refused" and not _left_out(folder / "out"):
            raise Failed(f"{what}: no predictions for the table of the fit: {again.err}")
        check_predictions(again.out)
        return Outcome(what, "accepted")


SUITE = Tables


def fit(path: Path, target: str, out: Path, *options: str) -> Ended:
    """A model that is fitted in no time."""
    return command("fit", path, "--target", target, "--out", out, *TINY, *options)


def _left_out(model: Path) -> int:
    """Rows without a target, which a fit leaves out whatever else is wrong with them."""
    document = json.loads((model / "regressor" / "config.json").read_text())
    return document["content"]["table"]["fit"]["left_out"]


def make_table(rng: random.Random, folder: Path) -> tuple[str, Path]:
    """A table with something wrong in its values, its columns or its bytes."""
    suffix = rng.choice((".csv", ".csv", ".csv", ".tsv", ".tsv", ".parquet"))
    num_rows = rng.choice((1, 2, 3, 30, 30, 30, 30))
    (what,) = rng.choices(list(CHANGES), [often for often, _ in CHANGES.values()])
    table = CHANGES[what][1](pl.DataFrame(base_columns(num_rows)), rng)
    data = _written(table, suffix, rng)
    if what == "nothing" or rng.random() < 0.15:
        if suffix != ".parquet" and rng.random() < 0.3:
            encoding = rng.choice(ENCODINGS)
            data = data.decode(errors="replace").encode(encoding, errors="replace")
            what += f", in {encoding}"
        else:
            more, data = damage_bytes(data, rng)
            what += f", {more}"
    name = rng.choice(("t", "t[1]", "t *", "t\u00e9", "-t", "t.csv"))
    path = folder / (name + (suffix.upper() if rng.random() < 0.1 else suffix))
    path.write_bytes(data)
    return what, path


def _written(table: pl.DataFrame, suffix: str, rng: random.Random) -> bytes:
    buffer = io.BytesIO()
    if suffix == ".parquet":
        codec: Any = rng.choice(("zstd", "snappy", "gzip", "lz4", "brotli", "uncompressed"))
        table.write_parquet(buffer, compression=codec, row_group_size=rng.choice((None, None, 7)))
        return buffer.getvalue()
    quoting: Any = rng.choice(("necessary", "necessary", "always", "never"))
    ends = rng.choice(("\n", "\n", "\r\n"))
    # What CSV cannot hold, as Python would print it.
    columns = table.get_columns()
    text = [
        pl.Series(c.name, [None if v is None else str(v) for v in c.to_list()]) for c in columns
    ]
    separator = "," if suffix == ".csv" else "\t"
    pl.DataFrame(text).write_csv(
        buffer, separator=separator, quote_style=quoting, line_terminator=ends
    )
    return buffer.getvalue()


# ---- changes to values and columns ---------------------------------------------------------------


def _odd_cells(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """Some cells, in a column that then holds text."""
    name = rng.choice(table.columns)
    values = [str(value) for value in table[name].to_list()]
    for _ in range(rng.choice((1, 1, 3, len(values)))):
        values[rng.randrange(len(values))] = rng.choice(CELLS)
    return table.with_columns(pl.Series(name, values))


def _odd_numbers(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    name = rng.choice(("x", "size", _TARGET))
    values = table[name].cast(pl.Float64).to_list()
    odd = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, 1e16, 5e-324, 0.0, -0.0, None)
    for _ in range(rng.choice((1, 1, 3, 2 * len(values)))):
        values[rng.randrange(len(values))] = rng.choice(odd)
    return table.with_columns(pl.Series(name, values, dtype=pl.Float64))


def _scaled(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    name, power = rng.choice(("x", _TARGET)), rng.choice((-320, -300, -160, 150, 298, 306))
    with np.errstate(over="ignore", under="ignore"):
        values = table[name].to_numpy() * 10.0**power if power > -320 else table[name] * 0 + 5e-324
    return table.with_columns(pl.Series(name, values))


def _odd_name(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    name, new = rng.choice(table.columns), rng.choice(NAMES)
    return table.rename({name: f"{new}." if new in table.columns else new})


def _constant(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    names = rng.choice((table.columns[:-1], [rng.choice(table.columns)]))
    value = rng.choice((0, 1e300, "a", True, None))
    return table.with_columns([pl.lit(value).alias(name) for name in names])


def _other_columns(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    return table.select(rng.sample(table.columns, rng.randint(1, table.width)))


def _wide(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    names = [f"c{i}" for i in range(rng.choice((50, 300)))]
    return table.with_columns(**{name: [rng.random() for _ in range(len(table))] for name in names})


# Types of columns, with the value of a row; text files hold what Python prints of it.
_TYPES: tuple[tuple[Any, Callable[[int], object]], ...] = (
    (pl.Date, lambda i: datetime.date(2021, 1, 1 + i % 28)),
    (pl.Datetime, lambda i: datetime.datetime(2021, 1, 1, i % 24)),
    (pl.Duration, lambda i: datetime.timedelta(seconds=i)),
    (pl.Time, lambda i: datetime.time(i % 24)),
    (pl.Decimal(20, 4), lambda i: Decimal(i) / 8),
    (pl.List(pl.Float64), lambda i: [float(i)]),
    (pl.Struct({"a": pl.Int64}), lambda i: {"a": i}),
    (pl.Binary, lambda i: bytes([i])),
    (pl.Null, lambda i: None),
    (pl.Categorical, lambda i: str(i % 3)),
    (pl.Int8, lambda i: i % 2**7),
    (pl.UInt64, lambda i: 2**64 - 1 - i),
    (pl.Int128, lambda i: 2**100 + i),
    (pl.Float32, float),
    (pl.Boolean, lambda i: i % 2 == 0),
    (pl.String, str),
)


def _odd_type(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    dtype, value = rng.choice(_TYPES)
    values = [value(i) for i in range(len(table))]
    return table.with_columns(pl.Series(rng.choice(table.columns), values, dtype=dtype))


def _few_rows(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    return table.head(rng.choice((0, 1, 2)))


def _missing(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    name = rng.choice(table.columns)
    kept = pl.Series([rng.random() < 0.7 for _ in range(len(table))])
    return table.with_columns(pl.when(kept).then(pl.col(name)).alias(name))


# With how often they are made.
CHANGES: dict[str, tuple[int, Callable[[pl.DataFrame, random.Random], pl.DataFrame]]] = {
    "nothing": (8, lambda table, rng: table),
    "odd cells": (2, _odd_cells),
    "odd numbers": (1, _odd_numbers),
    "other units": (1, _scaled),
    "odd name": (1, _odd_name),
    "constant": (1, _constant),
    "columns left out or in another order": (1, _other_columns),
    "many columns": (1, _wide),
    "a column of another type": (2, _odd_type),
    "few rows": (1, _few_rows),
    "missing values": (1, _missing),
}
