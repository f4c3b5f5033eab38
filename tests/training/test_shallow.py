"""Deep models that start from a single layer."""

import copy

import pytest
import torch

import deepwishart as dw
from deepwishart.bound import elbo
from deepwishart.training import CheckpointStore, Protocol, start_from_shallow, train


def data(rows=40, features=3):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(rows, features, generator=generator, dtype=torch.float64)
    return X, (2 * X[:, :1]).sin() + 0.1 * X[:, 1:2]


def bound(model, X, y, samples=200):
    generator = torch.Generator().manual_seed(1)
    return elbo(model, X, y, num_data=len(X), num_samples=samples, generator=generator).item()


@pytest.mark.parametrize("process", ["dwp", "dgp", "diwp"])
def test_start_is_better_than_that_of_build(process):
    X, y = data()
    model = dw.build(process, X, y, depth=2, num_inducing=15, output="collapsed")
    before = bound(model, X, y)
    assert start_from_shallow(model, X, y)
    assert bound(model, X, y) > before


def test_start_that_is_no_better_is_undone(same):
    X, y = data()
    model = dw.build("dwp", X, y, depth=2, num_inducing=15, output="collapsed")
    train(model, X, y, Protocol.named("fast", len(X)))
    kept = copy.deepcopy(model)
    assert not start_from_shallow(model, X, y) and same(model, kept)


@pytest.mark.parametrize("width", [2, 3, 5])
def test_hidden_features_give_the_kernel_of_the_single_layer(width):
    X, y = data()
    model = dw.build("dgp", X, y, depth=2, width=width, num_inducing=15, output="collapsed")
    single = dw.build("dgp", X, y, depth=1, num_inducing=15, output="collapsed")
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


def test_other_models_are_left_alone(same):
    X, y = data()
    others = [
        {"depth": 1},
        {"depth": 3},
        {"process": "dsvi"},
        {"kernel": "arc_cosine1"},
        {"output": "inducing"},
    ]
    for options in others:
        chosen = {"process": "dwp", "output": "collapsed", **options}
        model = dw.build(X=X, y=y, num_inducing=5, **chosen)
        before = copy.deepcopy(model)
        assert not start_from_shallow(model, X, y)
        assert same(model, before)


def test_training_starts_there_once(tmp_path, same):
    X, y = data()
    protocol = Protocol(6, 1e-2, 1e-3, "flat", 2, num_samples=2, shallow_steps=20)

    def start():
        return dw.build("dwp", X, y, depth=2, num_inducing=8, output="collapsed")

    whole = start()
    history = train(whole, X, y, protocol)
    assert history.elbo[0] > train(start(), X, y, protocol.replace(shallow_steps=0)).elbo[0]

    parts = start()
    store = CheckpointStore(tmp_path, every_steps=3)
    train(parts, X, y, protocol, checkpoints=store, should_stop=lambda h: len(h) == 3)
    again = start()
    train(again, X, y, protocol, checkpoints=store, resume=True)
    assert same(again, whole)

    learned = copy.deepcopy(whole.state_dict())
    train(whole, X, y, protocol.replace(max_iter=1, learning_rate=1e-9), history=history)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(value, learned[name], rtol=1e-6, atol=1e-6)
