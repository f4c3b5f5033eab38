"""``deepwishart example``: a table to try the other commands on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deepwishart.cli.errors import CommandError

_DISTRICTS = ("Harbour", "Hillside", "Old Town", "Riverside", "Station")
_ROWS = 400


def example(
    out: Annotated[Path, typer.Argument(help="The .csv file to write.", metavar="FILE")],
) -> None:
    """Write a table of houses to try the commands on: dates, text, missing values, and prices.

    The houses are made up, and the same every time.
    """
    import numpy as np
    import polars as pl

    if out.suffix.lower() != ".csv" or out.exists():
        raise CommandError(f"{out} exists already or is no .csv file; name a new one.")
    random = np.random.default_rng(0)
    area = np.round(np.exp(random.normal(4.6, 0.4, _ROWS)))
    built = random.integers(1890, 2021, _ROWS)
    place = random.integers(len(_DISTRICTS), size=_ROWS)
    unknown = random.random(_ROWS) < 0.1
    garden = random.random(_ROWS) < 0.4
    days = np.sort(random.integers(6 * 365, size=_ROWS))
    # Prices rise with size and over the years, and age has charm; errors are in proportion.
    log_price = 8.0 + 0.85 * np.log(area) + np.array([0.1, 0.3, 0.4, 0.2, 0.0])[place]
    log_price += 0.1 * garden + 0.04 * days / 365 + 0.2 * np.cos((built - 1890) / 40)
    price = np.exp(log_price + random.normal(0, 0.1, _ROWS))
    table = pl.DataFrame(
        {
            "sold": np.datetime64("2018-01-01") + days,
            "district": [_DISTRICTS[each] for each in place],
            "area": area.astype(int),
            "built": [None if gap else year for gap, year in zip(unknown, built, strict=True)],
            "garden": garden,
            "price": np.round(price, -2).astype(int),
        }
    )
    table.write_csv(out)
    print(f"{_ROWS} houses written to {out}; now try")
    print(f"deepwishart fit {out} --target price --impute median --out model")
