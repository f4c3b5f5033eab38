import io
import sys

import pytest
from rich.console import Console

from deepwishart.training import ProgressEvent, history, make_progress, train


def event(step: int, total: int = 20) -> ProgressEvent:
    return ProgressEvent(step, total, -1.25, 1.0, 1e-2, 0.3171, 0.5)


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=120)


def test_the_bar_shows_elbo_noise_speed_and_time_left():
    console = terminal()
    with make_progress(1, 20, "fold [1]", console=console) as report:
        for step in range(20):
            report(event(step))
    text = console.file.getvalue()
    for part in ("fold [1]", "20/20", "ELBO -1.250", "noise 0.317", "steps/s", "0:00:00"):
        assert part in text


def test_events_in_quick_succession_are_drawn_once(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(history.time, "monotonic", lambda: now[0])
    updates = []
    monkeypatch.setattr(history.Progress, "update", lambda *_, **fields: updates.append(fields))
    with make_progress(1, 20, console=terminal()) as report:
        for step in range(10):
            report(event(step))
        assert [fields["completed"] for fields in updates] == [1]
        now[0] += 2.0
        report(event(10))
        assert updates[-1]["completed"] == 11 and "5.0 steps/s" in updates[-1]["numbers"]
        report(event(19))
    assert updates[-1]["completed"] == 20


def test_speed_counts_the_steps_of_this_run_only(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(history.time, "monotonic", lambda: now[0])
    console = terminal()
    with make_progress(1, 2_000, console=console) as report:
        report(event(1_000, 2_000))
        now[0] += 2.0
        report(event(1_020, 2_000))
    assert "10.0 steps/s" in console.file.getvalue()


@pytest.mark.parametrize("verbose", [0, 1])
def test_nothing_is_written_where_nobody_looks(verbose, capsys):
    console = Console(file=io.StringIO(), force_terminal=False)
    for target in (console, None):
        with make_progress(verbose, 20, console=target) as report:
            report(event(0))
    assert console.file.getvalue() == ""
    assert capsys.readouterr() == ("", "")


def test_verbose_0_is_silent_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    console = terminal()
    for target in (console, None):
        with make_progress(0, 20, console=target) as report:
            report(event(0))
    assert console.file.getvalue() == ""
    assert capsys.readouterr() == ("", "")


def test_training_reports_to_the_bar(data, make_model, protocol):
    console = terminal()
    with make_progress(1, 3, console=console) as report:
        history = train(make_model(), *data, protocol.replace(max_iter=3), progress=report)
    assert "3/3" in console.file.getvalue()
    assert f"ELBO {history.elbo[-1]:.3f}" in console.file.getvalue()
