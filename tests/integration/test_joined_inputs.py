"""Layers that see the inputs: the kernel, one prior for dwp and dgp, the GP within, training."""

import pytest
import torch
from scipy.stats import ks_2samp

import deepwishart as dw
from deepwishart import kernels
from deepwishart.kernels import GramInducing

STATIONARY = ["squared_exponential", "matern52", "matern32", "rational_quadratic"]


def table(rows: int = 12, columns: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    return X, (2 * X[:, :1]).sin() * X[:, 1:2]


@pytest.mark.parametrize("name", STATIONARY)
def test_the_kernel_is_the_product_of_one_on_the_gram_matrix_and_one_on_the_inputs(name):
    X, _ = table()
    features = torch.randn(12, 3, generator=torch.Generator().manual_seed(1), dtype=X.dtype)
    joined = kernels.make(name, num_inputs=2, dtype=X.dtype)
    on_gram, on_inputs = (kernels.make(name, num_features=n, dtype=X.dtype) for n in (None, 2))
    with torch.no_grad():
        joined.log_height.fill_(0.3)
        on_gram.log_height.fill_(0.3)
        for kernel in (joined, on_gram):
            kernel.log_lengthscale.fill_(-0.4)
        joined.log_input_lengthscale.copy_(torch.tensor([0.2, 0.9]))
        on_inputs.log_lengthscale.copy_(torch.tensor([0.2, 0.9]))
    found = joined.square(torch.cat([features, X], dim=-1))
    expected = on_gram.square(GramInducing(features @ features.mT)) * on_inputs.square(X)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_both_processes_have_one_prior():
    """Gram matrices and outputs of dwp and dgp in distribution, at depth 3."""
    X, y = table(4)
    draws = {}
    for process in ("dwp", "dgp"):
        model = dw.build(process, X, y, depth=3, width=2, num_inducing=3, inputs="all")
        with torch.no_grad():
            for layer in (*model.hidden, model.output):
                layer.kernel.log_height.fill_(0.2)
            for layer in (model.hidden[1], model.output):
                layer.kernel.log_input_lengthscale.copy_(torch.tensor([-0.3, 0.6]))
        draws[process] = dw.sample_prior(model, X, 20_000, torch.Generator().manual_seed(2))
    for layer in range(2):
        for i, j in ((0, 0), (1, 0), (3, 2)):
            both = [draws[p].grams[layer][:, i, j].numpy() for p in draws]
            assert ks_2samp(*both).pvalue > 1e-3
    products = [(draws[p].outputs[:, 0, 0] * draws[p].outputs[:, 1, 0]).numpy() for p in draws]
    assert ks_2samp(*products).pvalue > 1e-3


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi"])
@pytest.mark.parametrize("output", ["inducing", "collapsed"])
def test_a_flat_kernel_on_the_layer_below_leaves_a_gaussian_process(process, output):
    X, y = table(20)
    options = {"num_inducing": 20, "output": output, "jitter": 1e-8}
    single = dw.build(process, X, y, depth=1, **options)
    deep = dw.build(process, X, y, depth=2, inputs="all", **options)
    prediction = []
    with torch.no_grad():
        deep.output.kernel.log_lengthscale.fill_(12.0)
        if process == "dsvi":
            points = single.output.inducing_inputs if output == "collapsed" else None
            points = single.output.whitened.inputs if points is None else points
            own = (
                deep.output.inducing_inputs
                if output == "collapsed"
                else deep.output.whitened.inputs
            )
            own[:, -2:] = points
            if output == "inducing":
                for name in ("mean", "root_lower", "log_root_diagonal"):
                    getattr(deep.output.whitened, name).copy_(getattr(single.output.whitened, name))
        else:
            deep.inducing_inputs.copy_(single.inducing_inputs)
            if output == "inducing":
                deep.output.pseudo.load_state_dict(single.output.pseudo.state_dict())
    for model in (single, deep):
        prediction.append(model.predict(X, 3, torch.Generator().manual_seed(0)))
    torch.testing.assert_close(prediction[0].mean, prediction[1].mean, rtol=0, atol=1e-4)
    torch.testing.assert_close(prediction[0].stddev, prediction[1].stddev, rtol=0, atol=1e-4)
