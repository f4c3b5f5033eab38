"""A model grows into one of a layer more at the same bound."""

import pytest
import torch

import deepwishart as dw
from deepwishart.grow import grow


def table(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(40, 3, generator=generator, dtype=dtype)
    return X, (2 * X[:, :1]).sin() * X[:, 1:2] + 0.1 * torch.randn(40, 1, generator=generator)


def trained(process="dwp", dtype=torch.float64, **options):
    X, y = table(dtype)
    options = {"num_inducing": 15, "output": "collapsed", "inputs": "all", "dtype": dtype} | options
    model = dw.build(process, X, y, **options)
    protocol = dw.training.Protocol.named("fast", 40).replace(max_iter=60, num_samples=3)
    batch = dw.training.train(model, X, y, protocol)
    assert batch.elbo[-1] > batch.elbo[0]
    return X, y, model


def bound(model, X, y, samples=400):
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        elbo = dw.elbo(model, X, y, num_data=len(X), num_samples=samples, generator=generator)
        return elbo.item()


@pytest.mark.parametrize("output", ["collapsed", "inducing"])
@pytest.mark.parametrize(
    "process, posterior", [("dwp", "anchored"), ("dwp", "bartlett"), ("dgp", "bartlett")]
)
def test_one_layer_grows_at_its_bound(process, posterior, output):
    """Exactly known before: what is left is the departure."""
    X, y, model = trained(process, depth=1, posterior=posterior, output=output)
    deeper = grow(model, departure=1e-8)
    assert deeper.depth == 2 and deeper.spec.inputs == "all"
    assert bound(deeper, X, y, 20) == pytest.approx(bound(model, X, y, 20), abs=1e-4)


@pytest.mark.parametrize("depth, width", [(2, None), (3, None), (3, (2, 4)), (2, 2)])
def test_deeper_models_grow_at_their_bound(depth, width):
    """To the Monte Carlo error of 2,000 samples, about 1e-2 per row, since noise differs."""
    X, y, model = trained(depth=depth, posterior="anchored", width=width)
    deeper = grow(model, departure=1e-8)
    assert deeper.depth == depth + 1
    assert bound(deeper, X, y, 2_000) == pytest.approx(bound(model, X, y, 2_000), abs=0.02)


def test_a_grown_model_goes_on_learning():
    X, y, model = trained(depth=1, posterior="anchored")
    deeper = grow(model)
    before = bound(deeper, X, y)
    protocol = dw.training.Protocol.named("fast", 40).replace(
        max_iter=200, num_samples=4, kl_anneal=0, learning_rate=2e-2
    )
    dw.training.train(deeper, X, y, protocol)
    assert bound(deeper, X, y) > before + 0.02


@pytest.mark.parametrize(
    "options, message",
    [
        ({"process": "dsvi", "depth": 1}, "'dwp' and 'dgp'"),
        ({"depth": 2, "inputs": "first"}, "inputs='all'"),
        ({"depth": 1, "ard": False}, "ard=True"),
        ({"depth": 1, "departure": 2.0}, "departure"),
    ],
)
def test_what_cannot_grow_is_refused(options, message):
    departure = options.pop("departure", 1e-3)
    model = dw.build(options.pop("process", "dwp"), *table(), **options)
    with pytest.raises(ValueError, match=message):
        grow(model, departure=departure)
