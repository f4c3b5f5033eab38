import math
import signal

import pytest
import torch

from deepwishart import bound
from deepwishart.training import CheckpointStore, History, Protocol, loop, run_training, train


def square(model, *_, **__):
    """A stand-in for the ELBO without noise."""
    return -sum((p - 0.5).square().sum() for p in model.parameters())


def test_training_is_adam_with_the_protocols_rates(data, make_model, protocol, monkeypatch):
    model, reference = make_model(), make_model()
    optimiser = torch.optim.Adam(reference.parameters())
    for step in range(protocol.max_iter):
        optimiser.param_groups[0]["lr"] = protocol.learning_rate_at(step)
        optimiser.zero_grad()
        (-square(reference)).backward()
        optimiser.step()

    monkeypatch.setattr(bound, "elbo", square)
    history = train(model, *data, protocol)
    for p, expected in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p, expected, rtol=1e-11, atol=1e-13)
        assert p.grad is None
    steps = range(protocol.max_iter)
    assert history.step == list(steps)
    assert history.learning_rate == [protocol.learning_rate_at(step) for step in steps]
    assert history.kl_weight == [protocol.kl_weight_at(step) for step in steps]
    assert history.seconds == sorted(history.seconds)
    noise = float(model.likelihood.noise.detach().sqrt().mean())
    assert history.noise[-1] == pytest.approx(noise, rel=1e-14)


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_training_raises_the_bound(data, make_model, process, dtype):
    model = make_model(process, depth=2, dtype=dtype)
    protocol = Protocol(60, 3e-2, 3e-2, "constant", kl_anneal=0, num_samples=4)
    history = train(model, *data, protocol)
    smooth = history.elbo_smoothed(15)
    assert smooth[-1] > smooth[14] + 0.1
    assert history.stopped_by == "max_iter" and not history.recoveries


def test_the_seed_decides_every_bit(data, make_model, protocol, same):
    protocol = protocol.replace(batch_size=7)
    runs = [make_model() for _ in range(3)]
    for model, seed in zip(runs, (0, 0, 1), strict=True):
        torch.manual_seed(len(model.layers))  # the global generator plays no part
        torch.rand(seed + 1)
        train(model, *data, protocol, seed=seed)
    assert same(runs[0], runs[1]) and not same(runs[0], runs[2])


def test_a_given_history_is_continued(data, make_model, protocol):
    model, history = make_model(), History()
    train(model, *data, protocol.replace(max_iter=4), history=history)
    first = list(history.seconds)
    same_object = train(model, *data, protocol.replace(max_iter=3), history=history, seed=1)
    assert same_object is history
    assert history.step == list(range(7)) and history.seconds[:4] == first
    assert history.kl_weight[4] == 0.0  # the protocol begins anew
    assert history.seconds == sorted(history.seconds)


def test_ctrl_c_finishes_the_step_and_stops(data, make_model, protocol, tmp_path, same):
    def press(event):
        if event.step == 5:
            signal.raise_signal(signal.SIGINT)

    model, whole = make_model(), make_model()
    store = CheckpointStore(tmp_path)
    history = train(model, *data, protocol, progress=press, checkpoints=store)
    assert (len(history), history.stopped_by) == (6, "interrupt")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    history = train(model, *data, protocol, checkpoints=store, resume=True)
    assert (len(history), history.stopped_by) == (24, "max_iter")
    train(whole, *data, protocol)
    assert same(model, whole)


def test_ctrl_c_twice_drops_the_step(data, make_model, protocol, monkeypatch, same):
    true_elbo, calls = bound.elbo, []

    def impatient(*arguments, **options):
        calls.append(1)
        if len(calls) == 8:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return true_elbo(*arguments, **options)

    expected = make_model()
    train(expected, *data, protocol, should_stop=lambda h: len(h) == 7)
    monkeypatch.setattr(bound, "elbo", impatient)
    model = make_model()
    history = train(model, *data, protocol)
    assert (len(history), history.stopped_by) == (7, "interrupt")
    assert same(model, expected)


def test_ctrl_c_that_the_program_handles_itself_is_left_alone(data, make_model, protocol):
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(1))
    options = {"progress": lambda _: signal.raise_signal(signal.SIGINT)}
    try:
        history = train(make_model(), *data, protocol.replace(max_iter=3), **options)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(pressed) == 3 and history.stopped_by == "max_iter"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"protocol": None}, "protocol must be a Protocol or the name of one"),
        ({"protocol": "fsat"}, "Did you mean 'fast'"),
        ({"seed": "0"}, "seed must be an integer"),
        ({"batches": [], "num_data": 24}, "either X and y, or batches"),
        ({"X": None, "y": None}, "either X and y, or batches"),
        ({"X": None, "y": None, "batches": []}, "either X and y, or batches and num_data"),
        (
            {"X": None, "y": None, "batches": [], "num_data": 24, "checkpoints": "store"},
            "go with neither checkpoints",
        ),
    ],
)
def test_what_does_not_fit_is_refused(data, make_model, protocol, changes, message):
    arguments = {"X": data[0], "y": data[1], "protocol": protocol, **changes}
    with pytest.raises(ValueError, match=message):
        train(make_model(), **arguments)


def test_an_optimiser_and_batches_of_ones_own(data, make_model, protocol):
    X, y = data
    halves = [(X[:12], y[:12]), (X[12:], y[12:])]
    model, other = make_model(), make_model()
    history = train(
        model, None, None, protocol, batches=halves, num_data=len(X), optimiser=torch.optim.SGD
    )
    assert len(history) == protocol.max_iter and all(map(math.isfinite, history.elbo))
    changed = [n for n, p in model.named_parameters() if not torch.equal(p, other.get_parameter(n))]
    assert len(changed) == len(list(model.parameters()))


@pytest.mark.parametrize("process", ["dwp", "diwp"])
def test_kinds_of_parameters_have_their_own_learning_rates(data, make_model, protocol, process):
    """A factor of 0 leaves the learned scale alone, and what somebody else has frozen stays."""
    before, model = (make_model(process, mixing=0.1) for _ in range(2))
    model.inducing_inputs.requires_grad_(False)
    factors = {"scale": 0.0, "kernel": 3.0}
    train(model, *data, protocol.replace(max_iter=1, factors=factors))
    fixed = ("learned_root", "mixing_logit", "inducing_inputs")
    for name, p in model.named_parameters():
        moved = float((p - before.get_parameter(name)).detach().abs().max())
        # Adam's first step is as long as the learning rate.
        rate = 0.0 if name.endswith(fixed) else 3e-2 if "kernel" in name else 1e-2
        rate = 3e-2 if name.startswith("likelihood") else rate
        assert moved == pytest.approx(rate, rel=1e-3), name
        assert p.requires_grad == (name != "inducing_inputs")


def test_long_training_of_few_rows_is_announced(data, make_model, protocol, monkeypatch):
    protocol = protocol.replace(max_iter=15)
    run_training(make_model(), *data, protocol)  # a warning would be an error
    monkeypatch.setattr(loop, "_LONG_SECONDS", 1e-9)
    with pytest.warns(UserWarning, match="up to 1 minutes: 15 steps of .* seconds"):
        run_training(make_model(), *data, protocol)
