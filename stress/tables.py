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
    what, table = rng.choice(CHANGES)(pl.DataFrame(base_columns(num_rows)), rng)
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

Change = Callable[[pl.DataFrame, random.Random], tuple[str, pl.DataFrame]]


def _nothing(table: pl.DataFrame, rng: random.Random) -> tuple[str, pl.DataFrame]:
    return "nothing", table


def _odd_cells(table: pl.DataFrame, rng: random.Random) -> tuple[str, pl.DataFrame]:
    """Some cells, in a column that then holds text."""
    name = rng.choice(table.columns)
    values = [str(value) for value in table[name].to_list()]
    for _ in range(rng.choice((1, 1, 3, len(values)))):
        values[rng.randrange(len(values))] = rng.choice(CELLS)
    return "odd cells", table.with_columns(pl.Series(name, values))


def _odd_numbers(table: pl.DataFrame, rng: random.Random) -> tuple[str, pl.DataFrame]:
    name = rng.choice(("x", "size", _TARGET))
    values = table[name].cast(pl.Float64).to_list()
    odd = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, 1e16, 5e-324, 0.0, -0.0, None)
    for _ in range(rng.choice((1, 1, 3, 2 * len(values)))):
        values[rng.randrange(len(values))] = rng.choice(odd)
    return "odd numbers", table.with_columns(pl.Series(name, values, dtype=pl.Float64))


def _scaled(table: pl.DataFrame, rng: random.Random) -> tuple[str, pl.DataFrame]:
    name, power = rng.choice(("x", _TARGET)), rng.choice((-320, -300, -160, 150, 298, 306))
    with np.errstate(over="ignore", under="ignore"):
        values = table[name].to_numpy() * 10.0**power if power > -320 else table[name] * 0 + 5e-324
    return f"times 1e{power}", table.with_columns(pl.Series(name, values))


def _odd_name(table: pl.DataFrame, rng: random.Random) -> tuple[str, pl.DataFrame]:
    name, new = rng.choice(table.columns), rng.choice(NAMES)
    clash = new in table.columns
    return "odd name", table.rename({name: f"{new}." if clash else new})


def _constant(table: pl.DataFrame, rng: random.Random) -> tuple[str, pl.DataFrame]:
    names = rng.choice((table.columns[:-1], [rng.choice(table.columns)]))
    value = rng.choice((0, 1e300, "a", True, None))
    return "constant", table.with_columns([pl.lit(value).alias(name) for name in names])


def _other_columns(table: pl.DataFrame, rng: random.Random) -> tuple[str, pl.DataFrame]:
    names = rng.sample(table.columns, rng.randint(1, table.width))
    return "columns left out or in another order", table.select(names)


def _wide(table: pl.DataFrame, rng: random.Random) -> tuple[str, pl.DataFrame]:
    names = [f"c{i}" for i in range(rng.choice((50, 300)))]
    return "many columns", table.with_columns(
        **{name: [rng.random() for _ in range(len(table))] for name in names}
    )


def _odd_type(table: pl.DataFrame, rng: random.Random) -> tuple[str, pl.DataFrame]:
    """A column of another type; text files hold what Python prints of it."""
    rows, name = len(table), rng.choice(table.columns)
    values: list[object]
    values, dtype = rng.choice(
        (
            ([datetime.date(2021, 1, 1 + i % 28) for i in range(rows)], pl.Date),
            ([datetime.datetime(2021, 1, 1, i % 24) for i in range(rows)], pl.Datetime),
            ([datetime.timedelta(seconds=i) for i in range(rows)], pl.Duration),
            ([datetime.time(i % 24) for i in range(rows)], pl.Time),
            ([Decimal(i) / 8 for i in range(rows)], pl.Decimal(20, 4)),
            ([[float(i)] for i in range(rows)], pl.List(pl.Float64)),
            ([{"a": i} for i in range(rows)], pl.Struct({"a": pl.Int64})),
            ([bytes([i]) for i in range(rows)], pl.Binary),
            ([None] * rows, pl.Null),
            ([str(i % 3) for i in range(rows)], pl.Categorical),
            ([i % 2**7 for i in range(rows)], pl.Int8),
            ([2**64 - 1 - i for i in range(rows)], pl.UInt64),
            ([2**100 + i for i in range(rows)], pl.Int128),
            ([float(i) for i in range(rows)], pl.Float32),
            ([i % 2 == 0 for i in range(rows)], pl.Boolean),
            ([str(i) for i in range(rows)], pl.String),
        )
    )
    return f"a column of {dtype}", table.with_columns(pl.Series(name, values, dtype=dtype))


def _few_rows(table: pl.DataFrame, rng: random.Random) -> tuple[str, pl.DataFrame]:
    return "few rows", table.head(rng.choice((0, 1, 2)))


def _missing(table: pl.DataFrame, rng: random.Random) -> tuple[str, pl.DataFrame]:
    name = rng.choice(table.columns)
    kept = [rng.random() < 0.7 for _ in range(len(table))]
    return "missing values", table.with_columns(
        pl.when(pl.Series(kept)).then(pl.col(name)).alias(name)
    )


CHANGES: tuple[Change, ...] = (
    *(_nothing,) * 8,
    *(_odd_cells, _odd_cells, _odd_numbers, _scaled, _odd_name, _constant, _other_columns),
    *(_wide, _odd_type, _odd_type, _few_rows, _missing),
)
