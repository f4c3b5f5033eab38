"""Dates and times as numbers."""

from __future__ import annotations

import polars as pl

# In the order in which they become columns.
PARTS = ("year", "day of year", "weekday", "hour", "elapsed days")
_DAY = 86_400_000_000  # microseconds
_TIMES = ("%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M")
_ZONED = tuple(f"{form}%#z" for form in _TIMES)
SLASHED = r"^([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})"  # day or month first; with points it is the day
_TWO, _FOUR = "[0-9]{1,2}", "[0-9]{4}"
_START = rf"^({_FOUR}(-{_TWO}-|/{_TWO}/){_TWO}|{_TWO}(/{_TWO}/|\.{_TWO}\.){_FOUR})([T ]|$)"


def looks_like_date(text: pl.Expr) -> pl.Expr:
    """Whether a text starts as a date does."""
    return text.str.contains(_START)


def days_of(text: pl.Expr, day_first: bool | None = None) -> pl.Expr:
    """Days since 1970 of dates and times such as ``2024-02-29``, ``2024/2/29 18:30``,
    ``29.02.2024``, ``2024-02-29T18:30:00.5+01:00``, and ``29/02/2024`` or ``02/29/2024`` if it is
    said whether the day is first; null where a text is no such thing. Times with an offset are
    converted to UTC, others are taken as they are.

    >>> text = pl.Series("t", ["1970-01-02", "1970/1/1 12:00", "1970-01-01 18:00+06:00", "May"])
    >>> text.to_frame().select(days_of(pl.col("t"))).to_series().to_list()
    [1.0, 0.5, 0.5, None]
    """
    if day_first is not None:
        text = text.str.replace(SLASHED, "${3}-${2}-${1}" if day_first else "${3}-${1}-${2}")
    text = text.str.replace(r"^([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})", "${3}-${2}-${1}")
    text = text.str.replace(r"^([0-9]{4})/([0-9]{1,2})/", "${1}-${2}-")
    time = text.str.replace(r"^(\S{8,10})[T ]", "${1}T").str.replace(r"\s?Z$", "+00:00")
    found = [text.str.to_date("%Y-%m-%d", strict=False).cast(pl.Datetime("us"))]
    found += [time.str.to_datetime(form, strict=False, time_unit="us") for form in _TIMES]
    found += [
        time.str.to_datetime(form, strict=False, time_unit="us").dt.replace_time_zone(None)
        for form in _ZONED
    ]
    return pl.coalesce(found).dt.epoch("us").cast(pl.Float64) / _DAY


def parts_of(days: pl.Expr, origin: float) -> dict[str, pl.Expr]:
    """The numbers of :data:`PARTS`: year, day of the year (1 to 366), weekday (Monday is 1), hour
    with minutes as a fraction, and days since ``origin``."""
    time = (days * _DAY).round().cast(pl.Int64).cast(pl.Datetime("us"))
    clock = time.dt.hour() + time.dt.minute() / 60.0
    numbers = (time.dt.year(), time.dt.ordinal_day(), time.dt.weekday(), clock, days - origin)
    return {part: each.cast(pl.Float64) for part, each in zip(PARTS, numbers, strict=True)}
