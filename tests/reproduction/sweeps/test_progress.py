"""What a person sees of a sweep."""

import io

import pytest
from rich.console import Console

from deepwishart.reproduction.sweeps import RunSpec, SweepProgress
from deepwishart.reproduction.sweeps.engine import Broken, Finished, Lost, Started, Stepped

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
            Stepped(SPECS[1], 10, 100, 1.5, 6.0),  # late news
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


def test_bars_on_a_terminal():
    events = [
        Started(SPECS[0], "worker 0"),
        Stepped(SPECS[0], 2500, 10_000, 1.2345, 100.0),
        Started(SPECS[1], "worker 1"),
        Finished(SPECS[1], OK, {}),
    ]
    text = follow(True, events)
    assert "yacht split 0 dwp depth 2" in text and "2500/10000" in text and "ELBO 1.234" in text
    assert "runs" in text and "1/4" in text and "[1/4] yacht split 1 dwp depth 2" in text
    assert "started" not in text


def test_forecast_by_kind():
    """Runs of a kind never seen take as long as the average kind."""
    deep, other = RunSpec("yacht", 0, "dwp", 5), RunSpec("boston", 0, "dgp", 3)
    known = {SPECS[0]: OK, deep: {**OK, "seconds": 600.0}, other: {"status": "failed"}}

    def left(specs, num_workers=1, records=known):
        return SweepProgress(specs, records, num_workers).seconds_left()

    assert left([SPECS[1], SPECS[2], deep]) == pytest.approx(60 + 60 + 600)
    assert left(SPECS, 2) == left(SPECS[:3], 2) + 30
    assert left([other]) == pytest.approx(330)
    assert left(SPECS, 2, {}) is None and left([]) == 0
