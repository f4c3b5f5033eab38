"""Models that work: of every process and part, from ready layers, and in chunks of rows."""

import pytest
import torch

import deepwishart as dw
from deepwishart.kernels import Matern32, SquaredExponential
from deepwishart.layers import (
    DoublyStochasticLayer,
    DoublyStochasticOutputLayer,
    GlobalInducingLayer,
    GPOutputLayer,
    InverseWishartLayer,
    WishartLayer,
)
from deepwishart.spec import PROCESSES

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(20, 3, generator=GENERATOR, dtype=torch.float64)
Y = torch.randn(20, 2, generator=GENERATOR, dtype=torch.float64)


def works(model, X=X, y=Y[:, :1]):
    """A finite bound, gradients for every parameter, and a finite prediction."""
    generator = torch.Generator().manual_seed(1)
    bound = dw.elbo(model, X, y, num_data=len(X), num_samples=3, generator=generator)
    bound.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name
    model.remember(X, y)
    assert bool(model.predict(X, num_samples=3, generator=generator).mean.isfinite().all())
    return bool(bound.isfinite()) and bound.dtype == model.dtype


@pytest.mark.parametrize(
    "options",
    [
        *({"kernel": kernel} for kernel in dw.kernels.names()),
        *({"width": width} for width in (1, 2, [5, 1], 12)),
        {"depth": 2, "output": "collapsed"},
    ],
    ids=str,
)
@pytest.mark.parametrize("process", PROCESSES)
def test_every_process_works_with_every_part(process, options):
    if process == "diwp" and isinstance(options.get("width"), list):
        options = {"width": 5}
    y = Y if "output" in options else Y[:, :1]
    assert works(dw.build(process, X, y, **{"depth": 3, "num_inducing": 7, **options}), X, y)


@pytest.mark.parametrize("posterior", ["rows", "columns", "rows_columns"])
def test_mixing_of_rows_and_columns_is_learned(posterior):
    model = dw.build("dwp", X, Y[:, :1], num_inducing=12, posterior=posterior)
    protocol = dw.training.Protocol.named("fast", 20).replace(max_iter=5)
    dw.training.train(model, X, Y[:, :1], protocol)
    for name in ("rows", "columns"):
        mixing = getattr(model.layers[0], f"{name}_mixing")
        assert (mixing is None) == (name not in posterior)
        assert mixing is None or float(mixing.detach().tril(-1).abs().max()) > 1e-3


# ---- ready layers ---------------------------------------------------------------------------


def ready(process, width=2, columns=3):
    kernel = SquaredExponential(dtype=torch.float64)
    zeros = torch.zeros(7, columns, dtype=torch.float64)
    return {
        "dwp": lambda: WishartLayer(kernel, width, 7),
        "dgp": lambda: GlobalInducingLayer(kernel, zeros[:, :width]),
        "dsvi": lambda: DoublyStochasticLayer(kernel, zeros, width),
        "diwp": lambda: InverseWishartLayer(kernel, 7),
    }[process]()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("process", PROCESSES)
def test_a_ready_layer(process, dtype):
    layer = ready(process)
    model = dw.build([layer], X, Y[:, :1], num_inducing=7, kernel="matern32", dtype=dtype)
    assert model.hidden == [layer] and model.depth == 2 and model.process == "custom"
    assert isinstance(model.output.kernel, Matern32)
    own = process == "dsvi"
    assert isinstance(model.output, DoublyStochasticOutputLayer if own else GPOutputLayer)
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert works(model, X.to(dtype), Y[:, :1].to(dtype))


@pytest.mark.parametrize(
    "layers",
    [[], [("dwp", 2, 3), ("dgp", 3, 3)], [("dwp", 2, 3), ("dsvi", 2, 2)]],
    ids=["none", "of two kinds", "the last with points of its own"],
)
def test_layers_of_several_kinds(layers):
    model = dw.build([ready(*each) for each in layers], X, Y[:, :1], num_inducing=7)
    assert model.inducing_inputs is not None and model.depth == len(layers) + 1
    assert works(model)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"process": ["dwp", "dgp"]}, "or a sequence of hidden layers; got str, str in it"),
        ({"process": [ready("dwp")], "width": 3}, "Ready layers have their widths"),
        ({"process": [ready("dwp")]}, "layer 1 cannot start from 20 inducing points"),
        (
            {"process": [ready("dsvi"), ready("dwp")], "num_inducing": 7},
            r"hands none on, but layer 1 \(WishartLayer\) needs them",
        ),
    ],
)
def test_layers_that_do_not_fit(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        dw.build(**{"X": X, "y": Y[:, :1], **options})


def test_targets_whose_squares_overflow_are_refused():
    model = dw.build("dwp", X, Y[:, :1], num_inducing=5)
    with pytest.raises(ValueError, match="squares are infinite"):
        dw.elbo(model, X, 1e200 * Y[:, :1], num_data=20)
