"""build: structure, starting values, and errors for people."""

import pytest
import torch

import deepwishart as dw
from deepwishart.start import linear_map, select_inducing

PROCESSES = ["dwp", "dgp", "dsvi", "diwp"]


def data(rows=20, columns=3, outputs=1):
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(rows, columns, generator=generator, dtype=torch.float64),
        torch.randn(rows, outputs, generator=generator, dtype=torch.float64),
    )


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_depth_counts_the_output_layer(process, depth, dtype):
    X, y = data(outputs=2)
    model = dw.build(process, X, y, depth=depth, num_inducing=7, dtype=dtype)
    assert model.depth == depth == len(model.layers) + 1
    assert {p.dtype for p in model.parameters()} == {dtype}
    bound = dw.elbo(model, X, y, num_data=20)
    assert bound.dtype == dtype and bool(torch.isfinite(bound))


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("width", [1, 2, 3, 5, 12])
def test_any_width(process, width):
    X, y = data()
    model = dw.build(process, X, y, depth=3, width=width, num_inducing=7)
    assert bool(torch.isfinite(dw.elbo(model, X, y, num_data=20)))


def test_width_defaults_to_the_number_of_features():
    X, y = data(columns=4)
    assert dw.build("dwp", X, y, num_inducing=5).layers[0].width == 4


@pytest.mark.parametrize("process", PROCESSES)
def test_the_seed_decides_the_start(process):
    X, y = data()
    first, again, other = (
        dw.build(process, X, y, num_inducing=7, seed=seed).state_dict() for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("kernel", dw.kernels.names())
@pytest.mark.parametrize("process", PROCESSES)
def test_every_kernel_in_every_process(process, kernel):
    X, y = data()
    model = dw.build(process, X, y, depth=3, num_inducing=7, kernel=kernel)
    bound = dw.elbo(model, X, y, num_data=20)
    bound.backward()
    assert bool(torch.isfinite(bound))


def test_a_kernel_instance_is_copied_for_each_layer():
    X, y = data()
    kernel = dw.kernels.SquaredExponential(dtype=torch.float64) + dw.kernels.Linear(
        dtype=torch.float64
    )
    model = dw.build("dwp", X, y, depth=3, num_inducing=7, kernel=kernel)
    owners = [*model.layers, model.output]
    assert len({id(p) for layer in owners for p in layer.kernel.parameters()}) == 3 * len(
        list(kernel.parameters())
    )


def test_inducing_points_are_distinct_rows():
    X, _ = data(rows=6)
    repeated = torch.cat([X, X, X])
    chosen, numbers, _ = select_inducing(repeated, 100, torch.Generator().manual_seed(0))
    assert len(chosen) == 6 == len(torch.unique(chosen, dim=0))
    assert torch.equal(repeated[numbers], chosen)


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_linear_map_keeps_what_it_can(width):
    X, _ = data()
    weights = linear_map(X, width)
    assert weights.shape == (3, width)
    kept = min(width, 3)
    torch.testing.assert_close((weights.mT @ weights)[:kept, :kept], torch.eye(kept, dtype=X.dtype))


def test_linear_mean_starts_near_the_identity_at_any_depth():
    X, y = data()
    model = dw.build("dsvi", X, y, depth=4, num_inducing=20, linear_mean=True)
    layers = model.sample_functions(X, num_samples=2).layers
    for layer in layers:
        torch.testing.assert_close(layer, model.scale_inputs(X).expand_as(layer), atol=0.2, rtol=0)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"process": "dwq"}, "Did you mean 'dwp'"),
        ({"process": "resnet"}, "choose from dwp, dgp, dsvi, diwp"),
        ({"kernel": "squared_exponental"}, "squared_exponential"),
        ({"depth": 0}, "depth must be an integer of at least 1"),
        ({"width": 0}, "width must be an integer of at least 1"),
        ({"num_inducing": 0}, "num_inducing must be an integer of at least 1"),
        ({"noise": -1.0}, "noise"),
        ({"dtype": torch.float16}, "dtype must be"),
        ({"linear_mean": True}, "dsvi"),
    ],
)
def test_bad_choices(options, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        dw.build(**{"process": "dwp", "X": X, "y": y, **options})


def test_bad_data():
    X, y = data()
    broken = X.clone()
    broken[3, 1] = float("nan")
    with pytest.raises(ValueError, match="X has NaN or infinite values, first in column 1"):
        dw.build("dwp", broken, y)
    with pytest.raises(ValueError, match="one row for each of the 20 rows"):
        dw.build("dwp", X, y[:4])
    with pytest.raises(ValueError, match="rows, features"):
        dw.build("dwp", X[:, 0], y)
