"""The record of a run: kept, shown, and judged for whether more steps would pay."""

import io
import json
import math

import numpy as np
import pytest
import torch
from rich.console import Console

import deepwishart as dw
from deepwishart.training import (
    CheckpointStore,
    History,
    ProgressEvent,
    Protocol,
    has_settled,
    make_progress,
    still_rising,
    train,
)


def history_of(elbo, annealed=0, rate=None):
    history = History()
    for step, value in enumerate(elbo):
        lr = 1e-2 if rate is None else rate[step]
        history.append(step, float(value), 0.5 if step < annealed else 1.0, lr, 0.1, 0.1 * step)
    history.stopped_by = "max_iter"
    return history


# ---- the record ---------------------------------------------------------------------------------


def test_json_keeps_every_bit():
    history = history_of([1 / 3, math.pi, -1e-300])
    history.recoveries = [2]
    assert History.from_dict(json.loads(json.dumps(history.to_dict()))) == history


@pytest.mark.parametrize("changes", [{"elbo": [1.0]}, {"noise": []}, {"stopped_by": "boredom"}])
def test_what_is_not_a_history_is_refused(changes):
    with pytest.raises(ValueError, match="not a training history"):
        History.from_dict({**history_of([1.0, 2.0]).to_dict(), **changes})


def test_smoothing_is_a_trailing_mean_and_truncation_forgets_later_steps():
    history = history_of([1.0, 2.0, 3.0, 5.0])
    assert history.elbo_smoothed(3) == pytest.approx([1.0, 1.5, 2.0, 10 / 3], rel=1e-14)
    assert history.elbo_smoothed(1) == pytest.approx(history.elbo, rel=1e-14)
    assert History().elbo_smoothed(5) == []
    with pytest.raises(ValueError, match="window"):
        history.elbo_smoothed(0)
    history.truncate(1)
    assert history == history_of([1.0])


# ---- the bar ------------------------------------------------------------------------------------


def event(step: int, total: int = 20) -> ProgressEvent:
    return ProgressEvent(step, total, History(elbo=[-1.25], noise=[0.3171]))


@pytest.mark.parametrize("first", [0, 1_000])
def test_the_bar_shows_elbo_noise_time_left_and_the_speed_of_this_run(first):
    """A resumed run has done many steps already, which say nothing of its speed."""
    now = [100.0]
    console = Console(file=io.StringIO(), force_terminal=True, width=120, get_time=lambda: now[0])
    with make_progress(1, first + 20, "fold [1]", console=console) as report:
        for step in range(first, first + 20):
            report(event(step, first + 20))
            now[0] += 0.1
    text = console.file.getvalue()
    shown = ("ELBO -1.250", "noise 0.317", "10.0 steps/s", "0:00:00", f"{first + 20}/{first + 20}")
    assert "fold [1]" in text and all(part in text for part in shown)


@pytest.mark.parametrize(("verbose", "terminal"), [(0, False), (1, False), (0, True)])
def test_nothing_is_written_where_nobody_looks(verbose, terminal, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    console = Console(file=io.StringIO(), force_terminal=terminal)
    for target in (console, None):
        with make_progress(verbose, 20, console=target) as report:
            report(event(0))
    assert console.file.getvalue() == ""
    assert capsys.readouterr() == ("", "")


# ---- more steps? --------------------------------------------------------------------------------


def noise(steps, scale=0.02):
    return scale * np.random.default_rng(0).standard_normal(steps)


def test_a_flat_run_has_reached_its_plateau_and_a_rising_one_has_not():
    steps = np.arange(400)
    assert has_settled(history_of(noise(400, 1e-3)), 0, steps_left=200)
    assert not has_settled(history_of(1e-4 * steps + noise(400, 1e-3)), 0, steps_left=200)
    assert has_settled(history_of(-1e-4 * steps + noise(400, 1e-3)), 0, steps_left=200)
    # With so much noise, 0.1 more might still be had; with few steps left it could not.
    assert not has_settled(history_of(noise(400, 0.5)), 0, steps_left=500)
    assert has_settled(history_of(noise(400, 0.5)), 0, steps_left=1)


def test_a_plateau_is_looked_for_now_and_then_and_after_annealing():
    flat = np.zeros(200)
    looked = [n for n in range(1, 201) if has_settled(history_of(flat[:n]), 0, 100)]
    assert looked == list(range(80, 201, 20))
    assert not has_settled(history_of(flat, annealed=140), 0, 100)
    assert has_settled(history_of(flat, annealed=100), 0, 100)
    assert not has_settled(history_of(flat), 140, 100)  # earlier training does not count


def test_still_rising():
    steps = np.arange(300)
    assert still_rising(history_of(0.001 * steps)) == pytest.approx(0.3, rel=1e-6)
    assert still_rising(history_of(0.001 * steps), first=150) == pytest.approx(0.15, rel=1e-6)
    assert still_rising(history_of(noise(300))) is None
    assert still_rising(history_of(0.001 * steps[:20])) is None  # too short to tell
    # A rise while the learning rate falls says nothing.
    falling = np.where(steps < 150, 1e-2, 1e-4)
    assert still_rising(history_of(np.maximum(steps - 150, 0) * 0.01, rate=falling)) is None
    settled = history_of(0.001 * steps)
    settled.stopped_by = "early_stopping"
    assert still_rising(settled) is None


def test_training_settles_when_nothing_is_left_to_learn(tmp_path, same, monkeypatch):
    """Targets say nothing. The learning rate falls to its end, and a resumed run settles alike."""
    generator = torch.Generator().manual_seed(5)
    X, y = (torch.randn(40, 1, generator=generator, dtype=torch.float64) for _ in range(2))
    protocol = Protocol(2_000, 5e-2, 1e-4, "flat", kl_anneal=20, num_samples=3)
    monkeypatch.setattr("deepwishart.training.history._WORTH", 0.02)
    options = {"early_stopping": True}

    def fresh():
        return dw.build("dwp", X, y / y.std(), depth=2, num_inducing=5, output="collapsed")

    model, resumed = fresh(), fresh()
    history = train(model, X, y, protocol, **options)
    assert history.stopped_by == "early_stopping"
    assert len(history) < 1_500 and history.learning_rate[-1] == pytest.approx(1e-4, rel=1e-6)

    while_it_falls = len(history) // 2 + 20
    options["checkpoints"] = CheckpointStore(tmp_path, every_steps=100)
    train(resumed, X, y, protocol, should_stop=lambda h: len(h) == while_it_falls, **options)
    again = train(resumed, X, y, protocol, resume=True, **options)
    assert again.elbo == history.elbo and again.stopped_by == "early_stopping"
    assert same(model, resumed)
    # A finished run stays finished.
    assert len(train(resumed, X, y, protocol, resume=True, **options)) == len(history)
