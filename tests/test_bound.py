"""What the bounds accept, refuse, and do not depend on."""

import copy
import json
import math
import os

import numpy as np
import pytest
import torch

import deepwishart as dw
from deepwishart._support import machine
from deepwishart.likelihoods import Bernoulli, Categorical, NegativeBinomial, Poisson

PROCESSES = ["dwp", "dgp", "dsvi", "diwp"]
OUTPUTS = ["inducing", "collapsed"]


X = torch.randn(20, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
y = X.sin().sum(1)


def seeded(seed=1):
    return torch.Generator().manual_seed(seed)


class Bound(torch.nn.Module):
    """The ELBO as a function of parameters alone."""

    def __init__(self, process, output):
        super().__init__()
        self.model = dw.build(process, X, y, depth=3, num_inducing=6, output=output)

    def forward(self):
        return dw.elbo(self.model, X, y, num_data=20, num_samples=3, generator=seeded())

    def value_and_gradients(self, function):
        self.zero_grad()
        value = function()
        value.backward()
        gradients = {n: p.grad.clone() for n, p in self.model.named_parameters()}
        return {"value": value.detach(), **gradients}


@pytest.mark.slow
@pytest.mark.parametrize("output", OUTPUTS)
# PyTorch's own, about itself:
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_a_compiled_bound_is_the_bound(output):
    bound = Bound("dwp", output)
    expected = bound.value_and_gradients(bound)
    torch._dynamo.reset()
    found = bound.value_and_gradients(torch.compile(bound, backend="aot_eager"))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-8, atol=1e-9, msg=name)


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_gradients_by_function_transforms(process, output):
    bound = Bound(process, output)
    expected = bound.value_and_gradients(bound)
    parameters = {name: p.detach() for name, p in bound.named_parameters()}
    gradients = torch.func.grad(lambda p: torch.func.functional_call(bound, p, ()))(parameters)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name.removeprefix("model.")], msg=name)


def changed(values, index, value):
    values = values.clone()
    values[index] = value
    return values


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": X[:0], "y": y[:0]}, "X has no rows"),
        ({"X": X[:, :1]}, r"shape \(rows, 2\)"),
        ({"y": y[:5]}, r"y must have shape \(20, 1\) or \(20,\)"),
        ({"X": changed(X, (3, 1), math.nan)}, "X has NaN or infinite"),
        ({"y": changed(y, 7, math.inf)}, "y has NaN or infinite"),
        ({"num_samples": 0}, "num_samples must be an integer of at least 1"),
        ({"num_samples": 2.5}, "num_samples must be an integer"),
        ({"num_samples": 10**400}, "num_samples must be at most"),
        *[
            ({"num_data": odd}, "num_data is the number of rows")
            for odd in (0, 19, math.nan, True, "20", 10**400)
        ],
        ({"kl_weight": math.nan}, "kl_weight must be a finite number"),
        ({"generator": np.random.default_rng(0)}, "generator must be a torch.Generator"),
    ],
)
def test_odd_arguments_are_refused(changes, message):
    model = dw.build("dwp", X, y, num_inducing=5)
    with pytest.raises(ValueError, match=message):
        dw.elbo(model, **{"X": X, "y": y, "num_data": 20, **changes})
    with pytest.raises(ValueError, match="num_importance must be an integer of at least 1"):
        dw.importance_weighted_bound(model, X, y, num_importance=0)


def test_a_minibatch_needs_an_inducing_output_layer():
    collapsed = dw.build("dwp", X, y, num_inducing=5, output="collapsed")
    with pytest.raises(ValueError, match=r"needs all 20 rows.*X has 8.*output='inducing'"):
        dw.elbo(collapsed, X[:8], y[:8], num_data=20)
    inducing = dw.build("dwp", X, y, num_inducing=5)
    assert dw.elbo(inducing, X[:8], y[:8], num_data=20).isfinite()


COUNTS = [[3.0, 1.5], [0.0, -1.0], [9.0, 2.0], [1.0, 0.3]]  # and logarithms of exposures


@pytest.mark.parametrize(
    ("likelihood", "columns"),
    [
        (Poisson(1, exposure=True), COUNTS),
        (NegativeBinomial(1, exposure=True), COUNTS),
        (Bernoulli(class_weights=[3.0, 0.2]), [[0.0], [1.0], [1.0], [0.0]]),
        (Categorical(3, class_weights=[3.0, 0.2, 1.0]), [[0.0], [1.0], [2.0], [0.0]]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_with_one_sample_the_importance_weighted_bound_is_the_elbo(likelihood, columns):
    """So it has the exposures and class weights that the ELBO has."""
    X = torch.linspace(-1, 1, 4, dtype=torch.float64)[:, None]
    y = torch.tensor(columns, dtype=torch.float64)
    model = dw.build("dgp", X, y, depth=2, num_inducing=3, likelihood=copy.deepcopy(likelihood))
    options = {"generator": seeded()}
    with torch.no_grad():
        drawn = dw.importance_weighted_bound(
            model, X, y, num_importance=1, num_replicates=5_000, **options
        )
        expected = dw.elbo(model, X, y, num_data=4, num_samples=5_000, **options)
    error = drawn.std() / math.sqrt(len(drawn))
    assert float(error) < 0.04 * abs(float(expected))
    assert float((drawn.mean() - expected).abs()) < 5.0 * float(error)


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_single_precision_on_evenly_spaced_points(process, output):
    # Neighbours are almost the same point: conditional covariances are mostly rounding.
    X = torch.linspace(-2, 2, 20)[:, None]
    model = dw.build(
        process, X, X.sin(), depth=2, num_inducing=10, output=output, dtype=torch.float32
    )
    functions = model.sample_functions(X, num_samples=5, generator=seeded()).functions
    assert functions.dtype == torch.float32
    assert bool(functions.isfinite().all())
    with torch.no_grad():
        estimates = dw.importance_weighted_bound(
            model, X, X.sin(), num_importance=5, num_replicates=2, generator=seeded()
        )
    assert estimates.dtype == torch.float32
    assert bool(estimates.isfinite().all())


SCRIPT = """
import json, torch, deepwishart as dw
torch.set_num_threads(1)  # here and there, or the last bits differ
X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
found = {}
for process in ("dwp", "dgp", "dsvi", "diwp"):
    for output in ("inducing", "collapsed"):
        for dtype in (torch.float32, torch.float64):
            model = dw.build(process, X, X.sin(), num_inducing=5, output=output, dtype=dtype)
            seeded = lambda: torch.Generator().manual_seed(1)
            bound = dw.elbo(model, X, X.sin(), num_data=20, num_samples=3, generator=seeded())
            assert bound.dtype == dtype
            predictive = model.predict(X[:3], num_samples=4, generator=seeded())
            drawn = predictive.sample(2, seeded()).flatten()
            functions = model.sample_functions(X[:3], 2, seeded()).functions.flatten()
            weighted = dw.importance_weighted_bound(
                model, X, X.sin(), num_importance=2, generator=seeded()
            )
            assert {t.dtype for t in (drawn, functions, weighted)} == {dtype}
            numbers = [bound.reshape(1), predictive.mean, drawn, functions, weighted]
            found[f"{process} {output} {dtype}"] = torch.cat(numbers).tolist()
"""


def test_results_do_not_depend_on_the_default_dtype(run_fresh):
    assert torch.get_default_dtype() == torch.float32
    here: dict = {}
    with machine.threads(1):
        exec(SCRIPT, here)
    first = "import torch; torch.set_default_dtype(torch.float64)\n"
    done = run_fresh(f"{first}{SCRIPT}print(json.dumps(found))", dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == here["found"]
