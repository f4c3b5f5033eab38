"""The ELBO is a lower bound, unbiased under minibatching."""

from dataclasses import dataclass

import pytest
import torch

import deepwishart as dw
from deepwishart.random import RowRandomness

PROCESSES = ["dwp", "dgp", "dsvi", "diwp"]


@dataclass(frozen=True)
class FixedRows(RowRandomness):
    """A row's noise by its number in a table of 12, whichever batch it is in."""

    index: torch.Tensor | None = None

    def _rows(self, num_rows, draw, stream):
        return draw(12, self._generator(stream, block=0))[:, self.index]


def small_problem():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(12, 2, generator=generator, dtype=torch.float64)
    y = torch.sin(2 * X[:, 0]) + 0.3 * torch.randn(12, generator=generator, dtype=X.dtype)
    return X, y


def trained(process: str, X, y, steps: int = 150, num_samples: int = 5, rate=2e-2, **options):
    model = dw.build(process, X, y, **{"depth": 3, "num_inducing": 6, **options})
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = -dw.elbo(model, X, y, num_data=len(X), num_samples=num_samples, generator=generator)
        loss.backward()
        optimiser.step()
    return model


@pytest.mark.parametrize("process", PROCESSES)
def test_elbo_lies_below_importance_weighted_bounds_that_rise_with_samples(process):
    X, y = small_problem()
    model = trained(process, X, y)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        estimates = [
            dw.elbo(model, X, y, num_data=12, num_samples=100, generator=generator)
            for _ in range(40)
        ]
        levels = [torch.stack(estimates)]
        for sizes in ((1, 4000), (10, 1000), (100, 200)):
            options = dict(zip(("num_importance", "num_replicates"), sizes, strict=True))
            bounds = dw.importance_weighted_bound(model, X, y, generator=generator, **options)
            levels.append(bounds)
    means = [level.mean() for level in levels]
    errors = [level.std() / len(level) ** 0.5 for level in levels]
    for low, high, a, b in zip(means, means[1:], errors, errors[1:], strict=False):
        assert high > low - 3 * (a.square() + b.square()).sqrt()
    # Strictly above in the end: a model with too large a ratio would not leave this room.
    assert means[3] > means[0] + 3 * errors[0]


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_minibatch_elbos_average_to_the_full_batch_elbo(process, depth):
    X, y = small_problem()
    model = trained(process, X, y, depth=depth, steps=3)
    parts = [torch.tensor([0, 5, 7]), torch.arange(1, 5), torch.tensor([6, 8, 9, 10, 11])]

    def with_fixed_noise(rows):
        random = model.randomness(4, torch.Generator().manual_seed(3))
        sample = model.sample(random)
        fixed = FixedRows(4, seed=5, index=rows)
        summary = sample.summarise(X[rows], y[rows, None], fixed)
        data_term = sample.output.data_term(summary, model.likelihood)
        return (data_term / len(rows) + 0.7 * sample.log_ratio / 12).mean()

    whole = with_fixed_noise(torch.arange(12))
    average = sum(len(rows) / 12 * with_fixed_noise(rows) for rows in parts)
    torch.testing.assert_close(average, whole, rtol=1e-11, atol=1e-11)
    assert abs(with_fixed_noise(parts[0]) - whole) > 1e-6


@pytest.mark.parametrize(
    ("process", "output", "bound"),
    [
        *((process, "inducing", "titsias2009") for process in PROCESSES),
        *(("dgp", "collapsed", bound) for bound in ("titsias2009", "tight")),
        ("dgp", "inducing", "tight"),
    ],
)
def test_elbo_gradients_match_finite_differences(process, output, bound):
    # Everything between parameters and ELBO, fused operations included. Gamma draws change
    # discontinuously under a fixed seed, so alpha (and delta, gamma) are checked elsewhere.
    X, y = small_problem()
    # With less jitter, rounding of the collapsed bound shows in its differences.
    model = trained(process, X, y, steps=20, output=output, bound=bound, jitter=1e-6)
    skip = ("log_concentration", "log_degrees", "log_extra_degrees")
    if process == "dwp":
        for layer in model.layers:
            layer.sticking_the_landing = False

    def value():
        generator = torch.Generator().manual_seed(5)
        return dw.elbo(model, X, y, num_data=12, num_samples=3, generator=generator)

    model.zero_grad()
    value().backward()
    generator, step = torch.Generator().manual_seed(6), 1e-4
    for name, parameter in model.named_parameters():
        assert float(parameter.grad.abs().max()) > 0, name
        if name.endswith(skip):
            continue
        direction = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        slope = (parameter.grad * direction).sum()
        with torch.no_grad():
            parameter += step * direction
            up = value()
            parameter -= 2 * step * direction
            down = value()
            parameter += step * direction
        # Rounding is below 1e-5 with this step on any processor, and so is what it truncates.
        torch.testing.assert_close((up - down) / (2 * step), slope, rtol=1e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("kernel", ["squared_exponential", "matern12", "relu"])
def test_single_precision_survives_badly_scaled_data(process, kernel):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(40, 5, generator=generator)
    X[:, 1] *= 1e-6
    X[:, 2] *= 1e6
    X[:, 3] = 3.0  # constant
    X[10:20], X[20:24] = X[:10].clone(), X[20].clone()  # duplicate rows
    y = X[:, :1] + 1e6 * X[:, 1:2]
    options = {"num_inducing": 30, "kernel": kernel, "dtype": torch.float32, "num_samples": 4}
    options["rate"] = 1e-2  # twice as much is too much on some processors
    # A value or gradient that is not finite stays in the parameters.
    model = trained(process, X, y, steps=200 if kernel == "squared_exponential" else 40, **options)
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())
    predictive = model.predict(X, num_samples=10, generator=generator)
    assert predictive.mean.dtype == torch.float32
    assert bool(torch.isfinite(predictive.log_prob(y)).all())
