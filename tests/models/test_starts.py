"""Whatever the table, a model starts where training can go on from."""

import math

import numpy as np
import pytest
import torch

import deepwishart as dw
from deepwishart.estimators import Standardiser
from deepwishart.start import starting_features

LOWEST = -50.0  # per row


def tables(seed, rows=48):
    """Inputs that are hard on a start, by name."""
    random = np.random.default_rng(seed)
    normal = random.standard_normal
    outliers = 1e-3 * normal((rows, 3))
    outliers[:2, 1], outliers[2, 0] = 50.0, -1e4
    nearly = normal((rows, 4))
    nearly[:, 1], nearly[:, 2] = 3.0 + 1e-9 * normal(rows), 1.0
    line = normal((rows, 1))
    return {
        "outliers": outliers,
        "near-constant": nearly,
        "heavy tails": random.standard_t(1, size=(rows, 3)),
        "many magnitudes": np.exp(4.0 * normal((rows, 2))),
        "discrete": random.integers(0, 2, size=(rows, 3)).astype(float),
        "rare": (random.random((rows, 4)) < 0.03).astype(float),
        "duplicated": np.repeat(normal((rows // 8, 3)), 8, axis=0),
        "collinear": np.hstack([line, 2.0 * line, line + 1e-8 * normal((rows, 1)), -line]),
        "one column": line,
        "wide": normal((rows, 200)),
        "wide and collinear": normal((rows, 2)) @ normal((2, 100)),
    }


def standardised(values):
    values = values.reshape(len(values), -1)
    return torch.as_tensor(Standardiser.fit(values).forward(values))


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
def test_no_start_explodes(process, depth):
    """Sixty seeds in all, three of them for each process and depth."""
    first = 15 * depth + 3 * ("dwp", "dgp", "dsvi", "diwp").index(process)
    for seed in range(first, first + 3):
        for name, X in tables(seed).items():
            y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(seed).standard_t(2, size=len(X))
            X, y = standardised(X), standardised(y)
            output = "collapsed" if seed % 2 else "inducing"
            model = dw.build(process, X, y, depth=depth, num_inducing=12, seed=seed, output=output)
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                bound = dw.elbo(
                    model, X, y, num_data=len(X), num_samples=2, generator=generator
                ).item()
            assert math.isfinite(bound) and bound > LOWEST, (name, seed, bound)


def test_spread_is_that_of_all_rows():
    """Two outliers hold the variance of a column, and are no inducing points."""
    rows = torch.zeros(200, 1, dtype=torch.float64)
    rows[2:, 0] = torch.linspace(-1e-3, 1e-3, 198, dtype=torch.float64)
    rows[:2, 0] = torch.tensor([10.0, -10.0])
    generator = torch.Generator().manual_seed(0)
    features = starting_features(rows[2:42], 1, generator, rows)
    assert features.abs().max() < 0.01  # by their own spread they would be of size one


@pytest.mark.parametrize(
    ("process", "posterior"), [("dwp", "bartlett"), ("dwp", "rows_columns"), ("dgp", "bartlett")]
)
def test_close_to_the_prior_a_start_costs_next_to_nothing(process, posterior):
    X = standardised(np.random.default_rng(0).standard_normal((60, 4)))
    options = {"depth": 3, "num_inducing": 12, "output": "collapsed", "posterior": posterior}
    costs = {}
    for start in ("inputs", "prior"):
        model = dw.build(process, X, X[:, 0].sin(), start=start, **options)
        with torch.no_grad():
            sample = model.sample(model.randomness(500, torch.Generator().manual_seed(0)))
        costs[start] = [-layer.log_ratio.mean().item() for layer in sample.layers]
    assert all(-0.1 < cost < 1.0 for cost in costs["prior"])
    assert all(cost > 20.0 for cost in costs["inputs"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("process", ["dwp", "dgp"])
def test_any_table_starts_close_to_the_prior(process, dtype):
    for name, X in tables(0).items():
        X = standardised(X)
        model = dw.build(
            process, X, X[:, 0].sin(), depth=4, num_inducing=12, start="prior", dtype=dtype
        )
        with torch.no_grad():
            bound = dw.elbo(model, X.to(dtype), X[:, :1].sin().to(dtype), num_data=len(X))
        assert bound.item() > LOWEST, name


def test_a_start_close_to_the_prior_has_a_seed():
    X = standardised(np.random.default_rng(0).standard_normal((30, 3)))
    first, again, other = (
        dw.build("dgp", X, X[:, 0], num_inducing=7, start="prior", seed=seed).state_dict()
        for seed in (1, 1, 2)
    )
    targets = "layers.0.pseudo.targets"
    assert torch.equal(first[targets], again[targets])
    assert not torch.equal(first[targets], other[targets])


@pytest.mark.parametrize("process", ["dsvi", "diwp"])
def test_only_two_processes_start_close_to_the_prior(process):
    X = standardised(np.random.default_rng(0).standard_normal((30, 3)))
    with pytest.raises(ValueError, match="'dwp' and 'dgp'"):
        dw.build(process, X, X[:, 0], start="prior")
    with pytest.raises(ValueError, match="inputs"):
        dw.build("dgp", X, X[:, 0], start="zero")
