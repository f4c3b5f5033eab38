"""Whatever the table, a model starts where training can go on from."""

import math

import numpy as np
import pytest
import torch

import deepwishart as dw
from deepwishart.estimators import Standardiser
from deepwishart.spec import PROCESSES
from deepwishart.start import select_inducing, starting_features

LOWEST = -50.0  # per row


def data(rows=20, columns=3, outputs=1):
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(rows, columns, generator=generator, dtype=torch.float64),
        torch.randn(rows, outputs, generator=generator, dtype=torch.float64),
    )


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


def bound_of(model, X, y, seed=0, num_samples=2):
    generator = torch.Generator().manual_seed(seed)
    options = {"num_data": len(X), "num_samples": num_samples, "generator": generator}
    with torch.no_grad():
        return dw.elbo(model, X, y, **options).item()


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("process", PROCESSES)
def test_no_start_explodes(process, depth):
    """Sixty seeds in all, three of them for each process and depth."""
    first = 15 * depth + 3 * PROCESSES.index(process)
    for seed in range(first, first + 3):
        for name, X in tables(seed).items():
            y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(seed).standard_t(2, size=len(X))
            X, y = standardised(X), standardised(y)
            output = "collapsed" if seed % 2 else "inducing"
            model = dw.build(process, X, y, depth=depth, num_inducing=12, seed=seed, output=output)
            bound = bound_of(model, X, y, seed)
            assert math.isfinite(bound) and bound > LOWEST, (name, seed, bound)


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


@pytest.mark.parametrize("posterior", ["rows", "columns", "rows_columns"])
@pytest.mark.parametrize("depth", [2, 3])
def test_every_family_starts_at_the_papers_posterior(posterior, depth):
    X, y = data()
    options = {"depth": depth, "num_inducing": 12}
    first, second = (
        bound_of(dw.build("dwp", X, y, posterior=family, **options), X, y)
        for family in ("bartlett", posterior)
    )
    assert first == pytest.approx(second, rel=1e-10)  # one is drawn by compiled code


@pytest.mark.parametrize(
    ("process", "start"), [*((process, "inputs") for process in PROCESSES), ("dgp", "prior")]
)
def test_the_seed_decides_the_start(process, start):
    X, y = data()
    first, again, other = (
        dw.build(process, X, y, num_inducing=7, seed=seed, start=start).state_dict()
        for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("process", PROCESSES)
def test_given_inducing_inputs(process):
    X, y = data(outputs=2)
    points = X[:4].float() + 1e-3
    model = dw.build(process, X, y, depth=2, inducing_inputs=points)
    assert model.num_inducing == 4
    found = model.layers[0].whitened.inputs * 3**0.5 if process == "dsvi" else model.inducing_inputs
    torch.testing.assert_close(found.detach(), points.double(), rtol=1e-12, atol=1e-12)
    if process == "dgp":  # pseudo-targets are those of the nearest rows
        assert torch.equal(model.output.pseudo.targets.detach(), y[:4])
    points.zero_()
    assert float(found.detach().abs().max()) > 0


def test_inducing_points_are_distinct_rows():
    X, _ = data(rows=6)
    repeated = torch.cat([X, X, X])
    chosen, numbers, _ = select_inducing(repeated, 100, torch.Generator().manual_seed(0))
    assert len(chosen) == 6 == len(torch.unique(chosen, dim=0))
    assert torch.equal(repeated[numbers], chosen)


def test_contradicting_targets_of_a_point_are_averaged():
    X, y = data(rows=6)
    twice, targets = torch.cat([X, X]), torch.cat([y, y + 2.0])
    model = dw.build("dgp", twice, targets, depth=1, num_inducing=12)
    assert model.num_inducing == model.spec.num_inducing == 6
    started = model.output.pseudo.targets.detach().flatten().sort().values
    torch.testing.assert_close(started, (y + 1.0).flatten().sort().values)


def test_spread_is_that_of_all_rows():
    """Two outliers hold the variance of a column, and are no inducing points."""
    rows = torch.zeros(200, 1, dtype=torch.float64)
    rows[2:, 0] = torch.linspace(-1e-3, 1e-3, 198, dtype=torch.float64)
    rows[:2, 0] = torch.tensor([10.0, -10.0])
    generator = torch.Generator().manual_seed(0)
    features = starting_features(rows[2:42], 1, generator, rows)
    assert features.abs().max() < 0.01  # by their own spread they would be of size one


NAN = torch.full((20, 3), torch.nan).where(torch.arange(3) == 1, torch.zeros(()))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"X": NAN}, "X has NaN or infinite values, first in column 1"),
        ({"X": torch.zeros(20)}, "X must have shape"),
        ({"y": torch.zeros(4)}, "one row for each of the 20 rows"),
        ({"dtype": torch.float16}, "dtype must be torch.float32 or torch.float64"),
        ({"noise": -1.0}, "noise must be a positive number"),
        ({"precision": 0.0}, "precision must be a positive number"),
        ({"start": "prior", "process": "diwp"}, "for the processes 'dwp' and 'dgp'"),
        ({"inducing_inputs": torch.zeros(4, 2)}, r"inducing_inputs must have shape \(points, 3\)"),
        ({"inducing_inputs": torch.full((4, 3), torch.nan)}, "inducing_inputs has NaN"),
        ({"inducing_inputs": torch.zeros(0, 3)}, "inducing_inputs must have shape"),
        ({"likelihood": dw.likelihoods.Poisson(2)}, "Poisson is for 2 targets: set its num_outp"),
        ({"likelihood": "categorical"}, "likelihood_options of 'categorical'.*num_classes"),
    ],
)
def test_what_is_refused(options, sentence):
    X, y = data()
    with pytest.raises(ValueError, match=sentence):
        dw.build(**{"process": "dwp", "X": X, "y": y, **options})
