import math
import signal

import pytest
import torch

import deepwishart as dw
from deepwishart import bound
from deepwishart.training import CheckpointStore, History, Protocol, train


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


def test_the_objective_gets_what_the_protocol_says(data, make_model, protocol, monkeypatch):
    calls = []

    def spy(model, X, y, **options):
        calls.append((X.shape[0], options["num_data"], options["num_samples"]))
        return square(model)

    monkeypatch.setattr(bound, "elbo", spy)
    train(make_model(), *data, protocol.replace(batch_size=9, max_iter=4))
    assert calls == [(8, 24, 2)] * 4


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


def test_clip_norm_bounds_the_gradient(data, make_model, protocol, tmp_path):
    for clip in (None, 1e-3):
        store = CheckpointStore(tmp_path / str(clip))
        train(make_model(), *data, protocol.replace(max_iter=1, clip_norm=clip), checkpoints=store)
        tensors = store.latest().tensors
        moments = [v.flatten() for k, v in tensors.items() if k.startswith("optimiser.exp_avg.")]
        norm = float(torch.cat(moments).norm()) / 0.1  # Adam's first moment after one step
        assert norm == pytest.approx(1e-3, rel=1e-9) if clip else norm > 1e-2


def test_frozen_parameters_stay(data, make_model, protocol):
    model = make_model()
    model.inducing_inputs.requires_grad_(False)
    before = model.inducing_inputs.clone()
    train(model, *data, protocol.replace(max_iter=3))
    assert torch.equal(model.inducing_inputs, before)


def test_should_stop_ends_training(data, make_model, protocol):
    history = train(make_model(), *data, protocol, should_stop=lambda h: len(h) == 5)
    assert (len(history), history.stopped_by) == (5, "early_stopping")


def test_a_given_history_is_continued(data, make_model, protocol):
    model, history = make_model(), History()
    train(model, *data, protocol.replace(max_iter=4), history=history)
    first = list(history.seconds)
    same_object = train(model, *data, protocol.replace(max_iter=3), history=history, seed=1)
    assert same_object is history
    assert history.step == list(range(7)) and history.seconds[:4] == first
    assert history.kl_weight[4] == 0.0  # the protocol begins anew
    assert history.seconds == sorted(history.seconds)


def test_progress_sees_every_step(data, make_model, protocol):
    events = []
    history = train(make_model(), *data, protocol.replace(max_iter=3), progress=events.append)
    assert [event.step for event in events] == [0, 1, 2]
    assert [event.elbo for event in events] == history.elbo
    assert {event.total for event in events} == {3}


def test_a_protocol_by_name(data, make_model):
    history = train(make_model(), *data, "fast", should_stop=lambda h: True)
    assert history.learning_rate == [5e-2]
    with pytest.raises(ValueError, match="Did you mean 'fast'"):
        train(make_model(), *data, "fsat")


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
    try:
        history = train(
            make_model(),
            *data,
            protocol.replace(max_iter=3),
            progress=lambda _: signal.raise_signal(signal.SIGINT),
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(pressed) == 3 and history.stopped_by == "max_iter"


def test_bad_data_is_refused(data, make_model, protocol):
    X, y = data
    model = make_model()
    broken = y.clone()
    broken[3] = torch.nan
    with pytest.raises(ValueError, match="y has NaN"):
        train(model, X, broken, protocol)
    with pytest.raises(ValueError, match="X must be a tensor"):
        train(model, X[:, :1], y, protocol)
    with pytest.raises(ValueError, match="y must have shape"):
        train(model, X, y[:-1], protocol)
    with pytest.raises(ValueError, match="y must hold real numbers"):
        train(model, X, ["a"] * len(y), protocol)
    with pytest.raises(ValueError, match="protocol must be a Protocol or the name of one"):
        train(model, X, y, None)
    with pytest.raises(ValueError, match="seed must be an integer"):
        train(model, X, y, protocol, seed="0")
    with pytest.raises(ValueError, match="no rows"):
        train(model, X[:0], y[:0], protocol)


def test_process_group_without_initialisation_is_refused(data, make_model, protocol):
    with pytest.raises(ValueError, match="init_process_group"):
        train(make_model(), *data, protocol, process_group=object())


def test_training_predicts(data):
    X, y = data
    model = dw.build("dwp", X, y, depth=2, num_inducing=12)
    train(model, X, y, Protocol(120, 3e-2, 1e-3, "cosine", kl_anneal=20, num_samples=3))
    generator = torch.Generator().manual_seed(0)
    residual = y - model.predict(X, 50, generator).mean
    assert float(residual.square().mean()) < 0.2 * float(y.var())


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batches": []}, "num_data has to say"),
        ({"batches": [], "num_data": 24, "X": True}, "not both"),
        ({}, "needs X and y"),
    ],
)
def test_batches_that_do_not_fit_are_refused(data, make_model, protocol, options, message):
    X = data[0] if options.pop("X", False) else None
    with pytest.raises(ValueError, match=message):
        train(make_model(), X, None, protocol, **options)


def test_given_batches_and_a_collapsed_output_do_not_go_together(data, make_model, protocol):
    with pytest.raises(ValueError, match="collapsed and needs all rows"):
        train(make_model(output="collapsed"), None, None, protocol, batches=[data], num_data=24)


def test_kinds_of_parameters_have_their_own_learning_rates(data, make_model, protocol):
    before, model = make_model(), make_model()
    train(model, *data, protocol.replace(max_iter=3, factors={"scale": 0.0, "kernel": 3.0}))
    for name, p in model.named_parameters():
        fixed = name.endswith(("learned_root", "mixing_logit"))
        assert torch.equal(p, before.get_parameter(name)) == fixed
        assert p.requires_grad
