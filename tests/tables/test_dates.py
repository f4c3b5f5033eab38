"""ISO dates and times become numbers."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

from deepwishart.tables import TableEncoder, TableError

WHEN = ["2023-12-31 06:30", "2024-01-01T18:00:00", "2024-02-29", "2024-01-01 20:00+02:00"]
PARTS = ("year", "day of year", "weekday", "hour", "elapsed days")


def test_parts_are_those_of_the_calendar():
    table = pl.DataFrame({"t": WHEN})
    encoder = TableEncoder.fit(table)
    assert encoder.columns[0].parts == PARTS
    assert encoder.feature_names[1] == "t: day of year"
    times = [
        dt.datetime(2023, 12, 31, 6, 30),
        dt.datetime(2024, 1, 1, 18),
        dt.datetime(2024, 2, 29),
        dt.datetime(2024, 1, 1, 18),  # the offset is taken off
        dt.datetime(2023, 12, 30, 6, 30),
    ]
    before = [
        (
            *(when.year, when.timetuple().tm_yday, when.isoweekday()),
            when.hour + when.minute / 60,
            (when - times[0]) / dt.timedelta(days=1),  # days count from the first of training
        )
        for when in times
    ]
    new = pl.DataFrame({"t": [*WHEN, "2023-12-30T06:30"]})
    np.testing.assert_allclose(encoder.encode(new).to_numpy(), before, atol=1e-9)


def test_only_parts_that_vary():
    days = [f"2024-03-{day:02}" for day in (4, 11, 18)]  # Mondays
    encoder = TableEncoder.fit(pl.DataFrame({"t": days}))
    assert encoder.columns[0].parts == ("day of year", "elapsed days")
    assert str(encoder.columns[0]) == "t (date: day of year, elapsed days)"
    assert TableEncoder.fit(pl.DataFrame({"t": days[:1] * 3})).columns[0].parts == PARTS[-1:]


def test_text_and_types_agree():
    times = [dt.datetime(2024, 1, 1, 6), dt.datetime(2024, 5, 1, 7, 15)]
    typed = pl.DataFrame({"t": times, "d": [t.date() for t in times]})
    zoned = typed.with_columns(pl.col("t").dt.replace_time_zone("UTC"))
    encoder = TableEncoder.fit(typed)
    expected = encoder.encode(typed)
    for other in (typed.cast(pl.String), zoned):
        assert TableEncoder.fit(other) == encoder
        assert encoder.encode(other).equals(expected)


def test_what_is_no_date():
    table = pl.DataFrame({"t": ["2024-01-01", "2024-01-02", "2024-02-30"]})
    with pytest.raises(TableError, match=r"'t' holds dates, but '2024-02-30' in row 3"):
        TableEncoder.fit(table)
    assert len(TableEncoder.fit(table, categorical=["t"]).feature_names) == 3
    encoder = TableEncoder.fit(table.head(2))
    with pytest.raises(TableError, match=r"'t' has 'soon' in row 1 where a date"):
        encoder.encode(pl.DataFrame({"t": ["soon"]}))


@pytest.mark.parametrize(
    ("text", "order", "days"),
    [
        (["1970/01/02", "1970/2/1"], None, [0, 30]),
        (["02.01.1970", "1.2.1970 12:00"], None, [0, 30.5]),
        (["2/1/1970", "13/2/1970"], None, [0, 42]),  # only the day can be 13
        (["1/2/1970", "2/13/1970"], None, [0, 42]),
        (["02/01/1970", "01/02/1970"], "day-first", [0, 30]),
        (["02/01/1970", "01/02/1970"], "month-first", [30, 0]),
        (["02/01/1970", "01/02/1970"], None, "'02/01/1970' in row 1.*--date-order day-first"),
        (["02/02/1970", "13/01/1970", "01/13/1970"], None, "'01/13/1970' in row 3"),
    ],
)
def test_dates_in_other_orders(text, order, days):
    table = pl.DataFrame({"t": text})
    if isinstance(days, str):
        with pytest.raises(TableError, match=days):
            TableEncoder.fit(table, date_order=order)
        return
    encoder = TableEncoder.fit(table, date_order=order)
    assert TableEncoder.from_dict(encoder.to_dict()) == encoder
    assert encoder.encode(table)["t: elapsed days"].to_list() == days
