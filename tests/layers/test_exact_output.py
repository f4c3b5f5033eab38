"""One layer on all distinct rows: the evidence and the predictions of a Gaussian process."""

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal

import deepwishart as dw
from deepwishart.bound import elbo
from deepwishart.estimators import DeepKernelRegressor
from deepwishart.kernels import Matern32, SquaredExponential
from deepwishart.layers import ExactOutputLayer
from deepwishart.layers.base import add_summaries
from deepwishart.likelihoods import Gaussian
from deepwishart.numerics.collapsed import log_density
from deepwishart.random import Randomness
from deepwishart.training import train_deterministic

NOISE = torch.tensor([0.1, 0.3], dtype=torch.float64)


def table(settings: int, replicates: int, columns: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    points = torch.randn(settings, 3, dtype=torch.float64)
    rows = points.repeat_interleave(replicates, 0)[torch.randperm(settings * replicates)]
    return rows, rows[:, :columns].sin() + 0.3 * torch.randn(len(rows), columns).double()


def sampled(rows: torch.Tensor, columns: int = 2):
    layer = ExactOutputLayer(Matern32(height=2.0, dtype=torch.float64), columns)
    likelihood = Gaussian(columns)
    likelihood.log_noise.data.copy_(NOISE[:columns].log())
    return layer, layer.sample(torch.unique(rows, dim=0), Randomness(1)), likelihood


@pytest.mark.parametrize("replicates", [1, 4])
def test_the_data_term_is_the_log_evidence_of_all_rows(replicates):
    rows, y = table(12, replicates)
    layer, sample, likelihood = sampled(rows)
    found = sample.data_term(sample.summarise(rows, y, likelihood), likelihood)
    expected = sum(
        MultivariateNormal(
            torch.zeros(len(rows)).double(),
            layer.kernel.square(rows) + noise * torch.eye(len(rows)).double(),
        ).log_prob(column)
        for noise, column in zip(NOISE, y.T, strict=True)
    )
    # The jitter of 1e-14 and the rounding of a 48 x 48 factor.
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_sums_over_parts_of_the_rows_add_up():
    rows, y = table(6, 5)
    _, sample, likelihood = sampled(rows)
    parts = [slice(0, 7), slice(7, 8), slice(8, 30)]
    found = add_summaries(sample.summarise(rows[p], y[p], likelihood) for p in parts)
    for part, whole in zip(found, sample.summarise(rows, y, likelihood), strict=True):
        torch.testing.assert_close(part, whole)


def test_predictions_are_those_of_all_rows():
    rows, y = table(8, 3)
    layer, sample, likelihood = sampled(rows)
    new = torch.randn(5, 3, dtype=torch.float64)
    predictor = sample.predictor(sample.summarise(rows, y, likelihood), likelihood)
    mean, variance = predictor.moments(new)
    joint = predictor.joint_moments(new)
    cross = layer.kernel.cross(rows, new)
    for column, noise in enumerate(NOISE):
        V = layer.kernel.square(rows) + noise * torch.eye(len(rows)).double()
        solved = torch.linalg.solve(V, cross)
        covariance = layer.kernel.square(new) - cross.mT @ solved
        torch.testing.assert_close(mean[:, column], solved.mT @ y[:, column])
        torch.testing.assert_close(variance[:, column], covariance.diagonal())
        torch.testing.assert_close(joint.covariance[column], covariance)


def test_log_density_and_its_gradient():
    root, y = torch.randn(2, 5, 5, dtype=torch.float64)
    V, y = (root @ root.mT + torch.eye(5).double()).requires_grad_(), y[:, :1].requires_grad_()

    def value(V, y):
        return log_density(0.5 * (V + V.mT), y, what="V")

    expected = MultivariateNormal(torch.zeros(5).double(), V).log_prob(y.squeeze(-1))
    torch.testing.assert_close(value(V, y), expected)
    assert torch.autograd.gradcheck(value, (V, y))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_model_trains_to_at_least_the_collapsed_bound(dtype):
    """The collapsed layer factorises K with jitter, and can only lose by it."""
    X = torch.linspace(-2, 2, 30, dtype=dtype)[:, None]
    y = (2 * X).sin()
    bounds = []
    for output in ("exact", "collapsed"):
        model = dw.build("dwp", X, y, depth=1, output=output, dtype=dtype)
        train_deterministic(model, X, y)
        bounds.append(elbo(model, X, y, num_data=30).item())
    assert bounds[0] > bounds[1] - 1e-3


def test_noise_free_rows_are_interpolated():
    X = np.linspace(0.0, 1.0, 25)[:, None]
    y = np.sin(6 * X.ravel())
    regressor = DeepKernelRegressor(depth=1, kernel="squared_exponential", random_state=0).fit(X, y)
    assert regressor.spec_.output == "exact"
    between = X[:-1] + 0.5 * (X[1] - X[0])
    # 1e-6 of the spread where a jitter of 1e-10 leaves about 1e-4.
    np.testing.assert_allclose(regressor.predict(between), np.sin(6 * between.ravel()), atol=1e-6)


def test_a_model_goes_on_with_other_rows():
    X = np.linspace(0.0, 1.0, 40)[:, None]
    y = np.sin(6 * X.ravel())
    regressor = DeepKernelRegressor(depth=1, kernel="matern52", random_state=0, warm_start=True)
    regressor.fit(X[::2], y[::2]).fit(X, y)
    assert regressor.n_inducing_ == 40
    np.testing.assert_allclose(regressor.predict(X), y, atol=1e-5)


def test_the_importance_weighted_bound_is_the_evidence():
    rows, y = table(12, 2, 1)
    model = dw.build("dwp", rows, y, depth=1, output="exact")
    weighted = dw.importance_weighted_bound(model, rows, y, num_importance=3)
    torch.testing.assert_close(weighted.squeeze(), elbo(model, rows, y, num_data=24))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"depth": 2}, "of one layer and no 'dsvi'"),
        ({"process": "dsvi", "depth": 1}, "of one layer and no 'dsvi'"),
        ({"depth": 1, "likelihood": dw.likelihoods.Poisson()}, "Poisson needs output='inducing'"),
    ],
)
def test_refusals(options, words):
    X = torch.linspace(0, 1, 5).double()[:, None]
    process = options.pop("process", "dwp")
    with pytest.raises(ValueError, match=words):
        dw.build(process, X, X, output="exact", **options)


def test_rows_that_are_no_inducing_points_are_refused():
    X = torch.linspace(0, 1, 8).double()[:, None]
    model = dw.build("dwp", X, X, depth=1, output="exact", num_inducing=5)
    with pytest.raises(ValueError, match="5 points do not hold 3 of the rows"):
        elbo(model, X, X, num_data=8)


def test_kernels_of_a_model_keep_their_name():
    layer = ExactOutputLayer(SquaredExponential(), 1)
    assert layer.needs_rows and layer.priors == [layer]
