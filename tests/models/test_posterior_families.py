"""Mixed rows and columns of the Bartlett factor, as a choice of the model."""

import pytest
import torch

import deepwishart as dw
from deepwishart.layers.wishart import POSTERIORS


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    return X, X.sin().sum(1)


def bound(model, data):
    generator = torch.Generator().manual_seed(1)
    return dw.elbo(model, *data, num_data=40, generator=generator)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("posterior", POSTERIORS[1:])
def test_every_family_starts_at_the_papers_posterior(data, posterior, depth):
    options = {"depth": depth, "num_inducing": 12}
    paper = dw.build("dwp", *data, **options)
    mixed = dw.build("dwp", *data, posterior=posterior, **options)
    # Another order of the same sums: the paper's family has a compiled draw, the others have not.
    assert bound(mixed, data).item() == pytest.approx(bound(paper, data).item(), rel=1e-10)


@pytest.mark.parametrize("posterior", POSTERIORS[1:])
def test_mixing_is_learned(data, posterior):
    model = dw.build("dwp", *data, num_inducing=12, posterior=posterior)
    protocol = dw.training.Protocol.named("fast", 40).replace(max_iter=5)
    dw.training.train(model, *data, protocol)
    for name in ("rows", "columns"):
        mixing = getattr(model.layers[0], f"{name}_mixing")
        assert (mixing is None) == (name not in posterior)
        assert mixing is None or float(mixing.detach().tril(-1).abs().max()) > 1e-3


def test_an_unknown_family_is_refused(data):
    with pytest.raises(ValueError, match="Did you mean 'rows_columns'"):
        dw.build("dwp", *data, posterior="row_columns")
