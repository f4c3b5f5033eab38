"""What a person sees of a sweep."""

import io

import pytest
from rich.console import Console

from deepwishart.reproduction.sweeps import RunSpec, SweepProgress
from deepwishart.reproduction.sweeps.engines.events import Broken, Finished, Lost, Started, Stepped
from deepwishart.reproduction.sweeps.forecast import Forecast

SPECS = [RunSpec("yacht", split, "dwp", 2) for split in range(4)]
OK = {"status": "ok", "elbo": 1.875, "test_log_likelihood": -0.125, "seconds": 60.0}


def follow(terminal: bool, events: list, specs=SPECS) -> str:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=100, legacy_windows=False)
    with SweepProgress(specs, {}, 2, console) as progress:
        for event in events:
            progress(event)
    return screen.getvalue()


def test_plain_lines_where_there_is_no_terminal():
    text = follow(
        False,
        [
            Started(SPECS[0], "worker 0"),
            Stepped(SPECS[0], 10, 100, 1.5, 6.0),
            Started(SPECS[1], "worker 1"),
            Lost(SPECS[1], "its worker was killed by SIGKILL"),
            Finished(SPECS[0], OK, {}),
            Started(SPECS[1], "worker 1"),
            Finished(SPECS[1], {"status": "failed", "reason": "NaN [in] layer 1"}, {}),
            Broken(SPECS[2], "OSError: disk"),
        ],
    )
    assert text.splitlines() == [
        "started yacht split 0 dwp depth 2 (worker 0)",
        "started yacht split 1 dwp depth 2 (worker 1)",
        "yacht split 1 dwp depth 2: its worker was killed by SIGKILL; trying again",
        "[1/4] yacht split 0 dwp depth 2: ELBO 1.875, test log likelihood -0.125, 1 min 00 s; "
        "1 min 30 s left",
        "started yacht split 1 dwp depth 2 (worker 1)",
        "[2/4] yacht split 1 dwp depth 2: failed: NaN [in] layer 1",
        "[3/4] yacht split 2 dwp depth 2: could not be done: OSError: disk",
    ]


def test_a_live_table_on_a_terminal():
    events = [
        Started(SPECS[0], "worker 0"),
        Stepped(SPECS[0], 2500, 10_000, 1.2345, 100.0),
        Started(SPECS[1], "worker 1"),
    ]
    text = follow(True, events)
    assert "yacht split 0 dwp depth 2" in text and "2500/10000" in text and "1.234" in text
    assert "1 min 40 s" in text and "5 min 00 s" in text and "starting" in text
    # 300 s of the first, 400 s each of the three others, on two workers.
    assert "0 of 4 runs done, 2 in flight" in text and "12 min 30 s left" in text
    assert "started" not in text


def test_forecast_knows_nothing_at_first():
    assert Forecast({}).seconds_left(SPECS, [Stepped(SPECS[0], 0, 0, 0.0, 0.0)], 2) is None


def test_forecast_by_kind():
    deep = RunSpec("yacht", 0, "dwp", 5)
    forecast = Forecast({SPECS[0]: OK, deep: {**OK, "seconds": 600.0}})
    waiting = [SPECS[1], SPECS[2], RunSpec("yacht", 1, "dwp", 5)]
    assert forecast.seconds_left(waiting, [], 1) == pytest.approx(60 + 60 + 600)
    assert forecast.seconds_left([RunSpec("boston", 0, "dgp", 3)], [], 1) == pytest.approx(330)


def test_forecast_ends_with_the_longest_run_in_flight():
    flights = [Stepped(SPECS[0], 90, 100, 1.0, 90.0), Stepped(SPECS[1], 10, 100, 1.0, 10.0)]
    assert Forecast({}).seconds_left([], flights, 2) == pytest.approx(90.0)


def test_failed_runs_say_nothing_about_time():
    failed = {"status": "failed", "seconds": 1.0}
    assert Forecast({SPECS[0]: failed}).seconds_left(SPECS[1:], [], 1) is None
