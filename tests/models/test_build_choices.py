"""build for researchers: one choice per layer, given inducing points, ready layers, likelihoods."""

import pytest
import torch

import deepwishart as dw
from deepwishart.kernels import Matern32, SquaredExponential
from deepwishart.layers import (
    CollapsedOutputLayer,
    DoublyStochasticLayer,
    DoublyStochasticOutputLayer,
    GlobalInducingLayer,
    GPOutputLayer,
    InverseWishartLayer,
    WishartLayer,
)

PROCESSES = ["dwp", "dgp", "dsvi", "diwp"]


def data(rows=20, columns=3, outputs=1):
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(rows, columns, generator=generator, dtype=torch.float64),
        torch.randn(rows, outputs, generator=generator, dtype=torch.float64),
    )


def works(model, X, y):
    """A finite bound, gradients for every parameter, and a finite prediction."""
    generator = torch.Generator().manual_seed(1)
    bound = dw.elbo(model, X, y, num_data=len(X), num_samples=3, generator=generator)
    bound.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name
    model.remember(X, y)
    assert bool(model.predict(X, num_samples=3, generator=generator).mean.isfinite().all())
    return bool(bound.isfinite())


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi"])
def test_a_width_for_each_layer(process):
    X, y = data()
    model = dw.build(process, X, y, depth=4, width=[2, 5, 1], num_inducing=7)
    assert [layer.width for layer in model.hidden] == [2, 5, 1]
    assert works(model, X, y)


@pytest.mark.parametrize("process", PROCESSES)
def test_a_kernel_for_each_layer(process):
    X, y = data()
    kernels = ["matern52", SquaredExponential(lengthscale=2.0), "arc_cosine1"]
    model = dw.build(process, X, y, depth=3, num_inducing=7, kernel=kernels)
    found = [type(layer.kernel).__name__ for layer in (*model.hidden, model.output)]
    assert found == ["Matern52", "SquaredExponential", "ArcCosine"]
    assert model.hidden[0].kernel.num_features == 3
    second = model.hidden[1].kernel
    assert second is not kernels[1] and second.log_height.dtype == torch.float64
    assert float(second.lengthscale.detach()) == pytest.approx(2.0)
    assert works(model, X, y)


@pytest.mark.parametrize("process", PROCESSES)
def test_given_inducing_inputs(process):
    X, y = data(outputs=2)
    points = X[:4].float() + 1e-3
    model = dw.build(process, X, y, depth=2, inducing_inputs=points)
    assert model.num_inducing == 4
    found = model.layers[0].whitened.inputs * 3**0.5 if process == "dsvi" else model.inducing_inputs
    found = found.detach()
    torch.testing.assert_close(found, points.double(), rtol=1e-12, atol=1e-12)
    if process == "dgp":  # pseudo-targets are those of the nearest rows
        assert torch.equal(model.output.pseudo.targets.detach(), y[:4])
    points.zero_()
    assert float(found.abs().max()) > 0
    assert works(model, X, y)


def ready(process, width=2, num_inducing=7, dtype=torch.float64):
    kernel = SquaredExponential(dtype=dtype)
    zeros = torch.zeros(num_inducing, 3, dtype=dtype)
    return {
        "dwp": lambda: WishartLayer(kernel, width, num_inducing, dtype=dtype),
        "dgp": lambda: GlobalInducingLayer(kernel, zeros[:, :width]),
        "dsvi": lambda: DoublyStochasticLayer(kernel, zeros, width),
        "diwp": lambda: InverseWishartLayer(kernel, num_inducing, dtype=dtype),
    }[process]()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("process", PROCESSES)
def test_a_ready_layer(process, dtype):
    X, y = data()
    layer = ready(process)
    model = dw.build([layer], X, y, num_inducing=7, kernel="matern32", dtype=dtype)
    assert model.hidden == [layer] and model.depth == 2 and model.process == "custom"
    assert isinstance(model.output.kernel, Matern32)
    assert isinstance(
        model.output, DoublyStochasticOutputLayer if process == "dsvi" else GPOutputLayer
    )
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert works(model, X.to(dtype), y.to(dtype))


def test_a_ready_layer_starts_as_one_that_build_makes():
    X, y = data()
    built = dw.build("dwp", X, y, num_inducing=7, width=2, kernel=SquaredExponential())
    model = dw.build([ready("dwp")], X, y, num_inducing=7, kernel=SquaredExponential())
    for name in ("log_deviation", "mean"):
        mine, other = (getattr(m.hidden[0], name).detach() for m in (model, built))
        torch.testing.assert_close(mine, other)


def test_layers_of_several_kinds():
    X, y = data()
    layers = [ready("dwp"), ready("dgp", width=3)]
    assert works(dw.build(layers, X, y, num_inducing=7), X, y)
    own = DoublyStochasticLayer(
        SquaredExponential(dtype=torch.float64), torch.zeros(7, 2, dtype=torch.float64), 2
    )
    model = dw.build([ready("dwp"), own], X, y, num_inducing=7)
    assert model.inducing_inputs is not None
    assert isinstance(model.output, DoublyStochasticOutputLayer)
    assert works(model, X, y)


def test_no_hidden_layers_are_a_sparse_gp():
    X, y = data()
    model = dw.build([], X, y, num_inducing=7)
    assert model.depth == 1
    assert works(model, X, y)


class Counts(dw.likelihoods.Likelihood):
    def __init__(self, num_outputs=1):
        super().__init__(num_outputs)
        self.log_rate = torch.nn.Parameter(torch.zeros(num_outputs))

    def distribution(self, latents):
        return torch.distributions.Poisson((latents + self.log_rate).exp())

    def initial_latents(self, y):
        return (y + 0.5).log()


@pytest.mark.parametrize("process", PROCESSES)
def test_a_likelihood(process):
    X, y = data(outputs=2)
    y = y.abs().round()
    likelihood = Counts(2)
    model = dw.build(process, X, y, num_inducing=7, likelihood=likelihood)
    # A copy, in the model's dtype: two models share no parameters.
    assert model.likelihood is not likelihood
    assert model.likelihood.log_rate.dtype == torch.float64
    assert likelihood.log_rate.dtype == torch.float32
    if process == "dwp":
        latents = (y + 0.5).log()
        for target in model.output.pseudo.targets.detach():
            assert bool((target == latents).all(1).any())
    assert works(model, X, y)


@pytest.mark.parametrize("process", PROCESSES)
def test_a_collapsed_output(process):
    X, y = data(outputs=2)
    model = dw.build(process, X, y, num_inducing=7, output="collapsed")
    assert isinstance(model.output, CollapsedOutputLayer)
    assert works(model, X, y)
    with pytest.raises(ValueError, match="needs all 20 rows"):
        dw.elbo(model, X[:5], y[:5], num_data=20)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"width": [2, 2]}, "width has 2 entries for 1 layers"),
        ({"width": [2, 0], "depth": 3}, "width must be an integer of at least 1"),
        ({"width": 2.5}, "width must be an integer of at least 1"),
        ({"kernel": ["matern32"] * 3}, "kernel has 3 entries for 2 layers"),
        ({"kernel": ["matern32", "matern521"]}, "Did you mean 'matern52'"),
        ({"inducing_inputs": torch.zeros(4, 2)}, r"inducing_inputs must have shape \(points, 3\)"),
        ({"inducing_inputs": torch.full((4, 3), torch.nan)}, "inducing_inputs has NaN"),
        ({"inducing_inputs": torch.zeros(0, 3)}, "inducing_inputs must have shape"),
        ({"output": "colapsed"}, "Did you mean 'collapsed'"),
        ({"output": "collapsed", "likelihood": Counts()}, "Counts needs output='inducing'"),
        (
            {"likelihood": Counts(2)},
            "Counts is for 2 targets: set its num_outputs",
        ),
        ({"likelihood": 3}, "likelihood must be a likelihoods.Likelihood, got int"),
        ({"likelihood": "gausian"}, "Did you mean 'gaussian'"),
        ({"process": ["dwp", "dgp"]}, "or a sequence of hidden layers; got str, str in it"),
        ({"process": [ready("dwp")], "width": 3}, "Ready layers have their widths"),
        ({"process": [ready("dwp")]}, "layer 1 cannot start from 20 inducing points"),
        (
            {"process": [ready("dsvi"), ready("dwp")], "num_inducing": 7},
            r"hands none on, but layer 1 \(WishartLayer\) needs them",
        ),
    ],
)
def test_bad_choices(options, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        dw.build(**{"process": "dwp", "X": X, "y": y, **options})
