"""Deep models that start from a single layer."""

import copy

import pytest
import torch

import deepwishart as dw
from deepwishart.bound import elbo
from deepwishart.training import CheckpointStore, Protocol, start_from_shallow, train

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
y = (2 * X[:, :1]).sin() + 0.1 * X[:, 1:2]


def build(process="dwp", depth=2, num_inducing=15, output="collapsed", **options):
    chosen = {"num_inducing": num_inducing, "output": output, **options}
    return dw.build(process, X, y, depth=depth, **chosen)


def bound(model):
    generator = torch.Generator().manual_seed(1)
    return elbo(model, X, y, num_data=len(X), num_samples=200, generator=generator).item()


@pytest.mark.parametrize("process", ["dwp", "dgp", "diwp"])
def test_start_is_better_than_that_of_build(process):
    model = build(process)
    before = bound(model)
    assert start_from_shallow(model, X, y)
    assert bound(model) > before


def test_start_that_is_no_better_is_undone(same):
    model = build()
    train(model, X, y, Protocol.named("fast", len(X)))
    kept = copy.deepcopy(model)
    assert not start_from_shallow(model, X, y) and same(model, kept)


@pytest.mark.parametrize("width", [2, 3, 5])
def test_hidden_features_give_the_kernel_of_the_single_layer(width):
    model, single = build("dgp", width=width), build("dgp", depth=1)
    single.output.jitter = model.output.jitter  # a single layer alone has less
    start_from_shallow(model, X, y, steps=100)
    protocol = Protocol(100, 1e-1, 1e-3, "flat", 0, num_samples=1, betas=(0.9, 0.99))
    train(single, X, y, protocol)
    features = model.layers[0].pseudo.targets
    found = model.output.kernel.square(features)
    wanted = single.output.kernel.square(single.first_inducing())
    torch.testing.assert_close(model.inducing_inputs, single.inducing_inputs)
    assert model.likelihood.noise >= single.likelihood.noise
    if width >= 3:  # a smaller width keeps the principal directions only
        torch.testing.assert_close(found, wanted, rtol=0, atol=2e-2 * wanted.max().item())
        return
    assert (found - wanted).abs().max() > 1e-3 * wanted.max()


@pytest.mark.parametrize(
    "other",
    [
        {"depth": 1},
        {"depth": 3},
        {"process": "dsvi"},
        {"kernel": "arc_cosine1"},
        {"output": "inducing"},
    ],
)
def test_other_models_are_left_alone(same, other):
    model = build(**other)
    before = copy.deepcopy(model)
    assert not start_from_shallow(model, X, y) and same(model, before)


def test_training_starts_there_once(tmp_path, same):
    protocol = Protocol(6, 1e-2, 1e-3, "flat", 2, num_samples=2, shallow_steps=20)
    whole, parts, again = build(), build(), build()
    history = train(whole, X, y, protocol)
    assert history.elbo[0] > train(build(), X, y, protocol.replace(shallow_steps=0)).elbo[0]

    store = CheckpointStore(tmp_path, every_steps=3)
    train(parts, X, y, protocol, checkpoints=store, should_stop=lambda h: len(h) == 3)
    train(again, X, y, protocol, checkpoints=store, resume=True)
    assert same(again, whole)

    learned = copy.deepcopy(whole.state_dict())
    train(whole, X, y, protocol.replace(max_iter=1, learning_rate=1e-9), history=history)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(value, learned[name], rtol=1e-6, atol=1e-6)
