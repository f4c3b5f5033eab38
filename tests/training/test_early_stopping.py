"""Ending a run when the bound has stopped rising, and knowing when it has not."""

import math

import numpy as np
import pytest
import torch

import deepwishart as dw
from deepwishart.training import CheckpointStore, History, Plateau, Protocol, still_rising, train


def history_of(elbo, annealed=0, rate=None):
    history = History()
    for step, value in enumerate(elbo):
        lr = 1e-2 if rate is None else rate[step]
        history.append(step, float(value), 0.5 if step < annealed else 1.0, lr, 0.1, 0.0)
    history.stopped_by = "max_iter"
    return history


def noise(steps, scale=0.02):
    return scale * np.random.default_rng(0).standard_normal(steps)


def test_a_flat_run_has_reached_its_plateau_and_a_rising_one_has_not():
    steps = np.arange(400)
    assert Plateau().reached(history_of(noise(400, 1e-3)), 0, steps_left=200)
    assert not Plateau().reached(history_of(1e-4 * steps + noise(400, 1e-3)), 0, steps_left=200)
    assert Plateau().reached(history_of(-1e-4 * steps + noise(400, 1e-3)), 0, steps_left=200)


def test_noise_alone_is_not_enough_to_stop():
    """With so much noise, 0.1 more might still be had; with few steps left it could not."""
    history = history_of(noise(400, 0.5))
    assert not Plateau().reached(history, 0, steps_left=500)
    assert Plateau().reached(history, 0, steps_left=1)


def test_a_plateau_is_looked_for_now_and_then_and_after_annealing():
    flat = np.zeros(200)
    looked = [n for n in range(1, 201) if Plateau(every=50).reached(history_of(flat[:n]), 0, 100)]
    assert looked == [100, 150, 200]
    assert not Plateau().reached(history_of(flat, annealed=140), 0, 100)
    assert Plateau().reached(history_of(flat, annealed=100), 0, 100)
    # Steps of earlier training do not count.
    assert not Plateau().reached(history_of(flat), 140, 100)


def test_senseless_plateaus():
    with pytest.raises(ValueError, match="tolerance"):
        Plateau(tolerance=math.nan)
    with pytest.raises(ValueError, match="every"):
        Plateau(every=0)


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


def test_protocols_settle():
    flat = Protocol(1_000, 1e-2, 1e-4, "flat", kl_anneal=10)
    assert (flat.steady_steps, flat.replace(schedule="constant").steady_steps) == (500, 1_000)
    assert flat.replace(schedule="cosine").steady_steps == 0
    early = flat.settle_at(200)
    assert [early.learning_rate_at(step) for step in (0, 199)] == [1e-2, 1e-2]
    assert early.learning_rate_at(399) == pytest.approx(1e-4, rel=1e-12)
    assert flat.replace(schedule="constant").settle_at(200).max_iter == 200


@pytest.fixture(scope="module")
def noisy():
    """Targets that say nothing: after a few steps nothing is left to learn."""
    generator = torch.Generator().manual_seed(5)
    draw = [torch.randn(40, 1, generator=generator, dtype=torch.float64) for _ in range(2)]
    return draw[0], (draw[1] - draw[1].mean()) / draw[1].std()


PROTOCOL = Protocol(2_000, 5e-2, 1e-4, "flat", kl_anneal=20, num_samples=3)


def fresh(noisy, **options):
    return dw.build("dwp", *noisy, depth=2, num_inducing=5, output="collapsed", **options)


def test_training_settles_when_nothing_is_left_to_learn(noisy, tmp_path, same):
    """The learning rate falls to its end in all cases, and a resumed run settles alike."""
    torch.set_num_threads(1)
    model = fresh(noisy)
    history = train(model, *noisy, PROTOCOL, plateau=Plateau(tolerance=0.02))
    assert history.stopped_by == "early_stopping"
    assert len(history) < 1_500 and history.learning_rate[-1] == pytest.approx(1e-4, rel=1e-6)
    settled = len(history) // 2

    resumed, store = fresh(noisy), CheckpointStore(tmp_path, every_steps=100)

    def cut_off(history):
        return len(history) == settled + 20  # while the learning rate falls

    options = {"plateau": Plateau(tolerance=0.02), "checkpoints": store}
    train(resumed, *noisy, PROTOCOL, should_stop=cut_off, **options)
    again = train(resumed, *noisy, PROTOCOL, resume=True, **options)
    assert again.elbo == history.elbo and again.stopped_by == "early_stopping"
    assert same(model, resumed)
    # A finished run stays finished.
    assert len(train(resumed, *noisy, PROTOCOL, resume=True, **options)) == len(history)
