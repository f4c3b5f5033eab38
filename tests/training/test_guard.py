"""Faults are injected into the objective; none may reach the parameters."""

import math
import shutil

import pytest
import torch

from deepwishart import bound
from deepwishart.numerics.linalg import CholeskyError
from deepwishart.random import Randomness
from deepwishart.training import Checkpoint, CheckpointStore, History, TrainingError, state, train
from deepwishart.training.guard import MAX_TRIES, explain

TRUE_ELBO = bound.elbo


def poison_parameter(model, value):
    with torch.no_grad():
        model.layers[1].mean[2, 0] = torch.nan
    return value * torch.nan


def poison_value(model, value):
    return value * torch.inf


def poison_gradient(model, value):
    """A finite value whose gradient is NaN in layer 2 and, as it would be, before it."""
    zero = 0.0 * (model.layers[1].log_deviation.sum() + model.inducing_inputs.sum())
    return value + zero.sqrt()


def poison_factor(model, value):
    what = "the posterior scale of layer 2"
    raise CholeskyError(f"{what} is not positive definite.", what)


FAULTS = [poison_parameter, poison_value, poison_gradient, poison_factor]


def inject(monkeypatch, fault, fails):
    """Let the steps fail of which ``fails(step, earlier faults)`` is true; the list of faults. The
    KL weight tells the step."""
    done = []

    def elbo(model, X, y, *, kl_weight, **options):
        value = TRUE_ELBO(model, X, y, kl_weight=kl_weight, **options)
        step = round(1_000 * kl_weight)
        if fails(step, done):
            done.append(step)
            return fault(model, value)
        return value

    monkeypatch.setattr(bound, "elbo", elbo)
    return done


def once_at(*steps):
    return lambda step, done: step in steps and step not in done


def finite(model) -> bool:
    return all(bool(torch.isfinite(p).all()) for p in model.parameters())


@pytest.mark.parametrize("fault", FAULTS)
def test_training_survives_a_transient_fault(data, make_model, protocol, monkeypatch, fault):
    inject(monkeypatch, fault, lambda step, done: step == 7 and len(done) < 2)
    model = make_model()
    history = train(model, *data, protocol)
    assert finite(model)
    assert history.stopped_by == "max_iter" and history.recoveries == [7, 7]
    assert history.step == list(range(protocol.max_iter))
    assert all(math.isfinite(value) for value in history.elbo)
    assert history.learning_rate[8] == 0.25 * protocol.learning_rate_at(8)


@pytest.mark.parametrize(
    ("fault", "layer", "words"),
    [
        (poison_parameter, "layer 2", "layers.1.mean became NaN"),
        (poison_value, "the likelihood", "objective is NaN or infinite"),
        (poison_gradient, "layer 2", "gradient of layers.1.log_deviation"),
        (poison_factor, "layer 2", "posterior scale of layer 2"),
    ],
)
def test_a_permanent_fault_ends_training(
    data, make_model, protocol, monkeypatch, tmp_path, same, fault, layer, words
):
    expected = make_model()
    train(expected, *data, protocol, should_stop=lambda history: len(history) == 10)

    done = inject(monkeypatch, fault, lambda step, done: step >= 13)
    model, history = make_model(), History()
    store = CheckpointStore(tmp_path, every_steps=10)
    with pytest.raises(TrainingError, match=words) as caught:
        train(model, *data, protocol, checkpoints=store, history=history)
    error = caught.value
    assert (error.step, error.layer, len(done)) == (13, layer, MAX_TRIES)
    assert "learning rate" in str(error) and str(error.last_good) in str(error)
    assert (history.stopped_by, len(history)) == ("error", 10)
    assert same(model, expected)
    saved = make_model(seed=1)
    Checkpoint.read(error.last_good).load_into(saved)
    assert same(saved, expected)

    monkeypatch.setattr(bound, "elbo", TRUE_ELBO)
    history = train(model, *data, protocol, checkpoints=store, resume=True)
    assert history.stopped_by == "max_iter" and len(history) == protocol.max_iter


def test_rare_faults_never_end_training(data, make_model, protocol, monkeypatch):
    calls = []

    def elbo(model, *arguments, **options):
        calls.append(1)
        value = 1e-3 * sum(p.sum() for p in model.parameters())
        return value * torch.nan if len(calls) % 60 == 4 else value

    monkeypatch.setattr(bound, "elbo", elbo)
    monkeypatch.setattr(state, "SNAPSHOT_EVERY", 10)
    protocol = protocol.replace(max_iter=700, schedule="constant")
    history = train(make_model(depth=2), *data, protocol)
    assert len(history.recoveries) > MAX_TRIES and len(history) == 700
    # Halved every 60 steps and grown by a fifth every 10, the rate comes back every time.
    rates = history.learning_rate
    assert min(rates) == 0.5e-2 and rates[:41:10] == pytest.approx(
        [0.5e-2, 0.6e-2, 0.72e-2, 0.864e-2, 1e-2]
    )


def test_a_run_resumed_before_a_fault_recovers_alike(
    data, make_model, protocol, monkeypatch, tmp_path, same
):
    whole, resumed = make_model(), make_model()
    store = CheckpointStore(tmp_path / "whole", every_steps=10)
    store.keep = 9
    inject(monkeypatch, poison_value, once_at(3, 17))
    train(whole, *data, protocol, checkpoints=store)

    other = CheckpointStore(tmp_path / "resumed", every_steps=10)
    other.directory.mkdir()
    shutil.copy(store.directory / "step-000000010.safetensors", other.directory)
    inject(monkeypatch, poison_value, once_at(17))
    history = train(resumed, *data, protocol, checkpoints=other, resume=True)
    assert history.recoveries == [3, 17]
    assert same(whole, resumed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_absurd_learning_rate_leaves_a_finite_model(data, make_model, protocol, dtype):
    model = make_model(dtype=dtype)
    history = train(model, *data, protocol.replace(learning_rate=5e2, schedule="constant"))
    assert history.stopped_by == "max_iter" and history.recoveries
    assert finite(model)


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
def test_replaying_a_step_finds_the_layer_that_overflows(data, make_model, process):
    model = make_model(process, depth=4)
    large = {
        "dwp": "log_deviation",
        "dgp": "pseudo.targets",
        "dsvi": "whitened.mean",
        "diwp": "learned_root",
    }
    parameters = dict(model.layers[1].named_parameters())
    with torch.no_grad():
        parameters[large[process]].fill_(1e200)
    random = Randomness(2, torch.Generator().manual_seed(0))
    _, layer = explain(model, None, math.nan, data[0], random)
    assert layer == "layer 2"
