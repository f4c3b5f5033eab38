"""The tighter bound: above the old one, below the evidence, and the same sum over rows."""

import math

import pytest
import torch

import deepwishart as dw
from deepwishart import likelihoods
from deepwishart.random import Randomness

ROWS = 30
LIKELIHOODS = {
    "gaussian": likelihoods.Gaussian,
    "heteroscedastic": likelihoods.HeteroscedasticGaussian,
    "student_t": likelihoods.StudentT,
    "heteroscedastic_t": likelihoods.HeteroscedasticStudentT,
}


def table(seed: int = 0, outputs: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(ROWS, 2, generator=generator, dtype=torch.float64)
    noise = torch.randn(ROWS, outputs, generator=generator, dtype=torch.float64)
    return X, (2 * X[:, :1]).sin() + 0.2 * noise


def pair(process: str = "dwp", *, seed: int = 0, outputs: int = 1, **options):
    """Two models that differ in their bounds alone, with parameters that are not at a start."""
    X, y = table(seed, outputs)
    options = {"depth": 2, "num_inducing": 6, "seed": seed} | options
    models = [dw.build(process, X, y, bound=bound, **options) for bound in ("titsias2009", "tight")]
    generator = torch.Generator().manual_seed(seed + 100)
    with torch.no_grad():
        for first, second in zip(models[0].parameters(), models[1].parameters(), strict=True):
            first.add_(0.2 * torch.randn(first.shape, generator=generator, dtype=first.dtype))
            second.copy_(first)
    return X, y, models


def bound(model, X, y, **options) -> float:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        return dw.elbo(model, X, y, num_data=ROWS, generator=generator, **options).item()


@pytest.mark.parametrize("output", ["collapsed", "inducing"])
@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
def test_it_is_above_the_old_one_for_the_same_samples(process, output):
    for seed in range(3):
        X, y, (old, tight) = pair(process, seed=seed, output=output, outputs=2)
        assert bound(tight, X, y) > bound(old, X, y) + 1e-6


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_it_is_never_below_the_old_one_under_any_noise(likelihood):
    """Row by row, for the same samples of the hidden layer."""
    for seed in range(5):
        X, y, models = pair(seed=seed, likelihood=LIKELIHOODS[likelihood](1))
        found = []
        for model in models:
            random = Randomness(4, torch.Generator().manual_seed(1))
            sample = model.sample(random)
            rows = sample.last_rows(X, random.rows())
            sums = [
                sample.output.summarise(rows[:, n : n + 1], y[n : n + 1], model.likelihood)[0]
                for n in range(len(X))
            ]
            found.append(torch.stack(sums).detach())
        assert bool((found[1] >= found[0] - 1e-12).all())
        assert float((found[1] - found[0]).max()) > 1e-6


@pytest.mark.parametrize("output", ["collapsed", "inducing"])
def test_it_is_below_the_evidence_of_a_gaussian_process(output):
    """At depth 1, where the evidence is known: 20 tables with other noise and lengthscales."""
    for seed in range(20):
        X, y, (_, tight) = pair(seed=seed, depth=1, output=output)
        covariance = tight.output.kernel.square(tight.scale_inputs(X)).detach()
        covariance = covariance + tight.likelihood.noise.detach() * torch.eye(ROWS)
        normal = torch.distributions.MultivariateNormal(y.new_zeros(ROWS), covariance)
        assert bound(tight, X, y) < normal.log_prob(y[:, 0]).item() / ROWS


def test_integrating_the_output_out_is_at_least_as_good_as_any_posterior_of_it():
    for seed in range(5):
        X, y, (_, inducing) = pair(seed=seed, depth=1, output="inducing")
        _, _, (_, collapsed) = pair(seed=seed, depth=1, output="collapsed")
        collapsed.load_state_dict(
            {k: v for k, v in inducing.state_dict().items() if not k.startswith("output.pseudo")},
            strict=False,
        )
        assert bound(collapsed, X, y) >= bound(inducing, X, y) - 1e-9


@pytest.mark.parametrize("output", ["collapsed", "inducing"])
def test_it_is_the_old_one_where_all_rows_are_inducing_points(output):
    """Up to the jitter, which is all that stays unexplained."""
    X, y = table()
    options = {"depth": 1, "num_inducing": ROWS, "output": output, "jitter": 1e-10}
    old, tight = (dw.build("dwp", X, y, bound=b, **options) for b in ("titsias2009", "tight"))
    assert bound(tight, X, y) == pytest.approx(bound(old, X, y), abs=1e-7)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_minibatches_add_up_to_the_whole(likelihood):
    """With the same hidden samples, sums over disjoint batches are the sum over all rows."""
    X, y, (_, tight) = pair(likelihood=LIKELIHOODS[likelihood](1))
    random = Randomness(3, torch.Generator().manual_seed(0))
    sample = tight.sample(random)
    rows = random.rows()
    whole = sample.summarise(X, y, rows)[0]
    parts = [
        sample.summarise(X[i : i + 7], y[i : i + 7], rows.part(i, ROWS))[0] for i in range(0, 30, 7)
    ]
    torch.testing.assert_close(sum(parts), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("jitter", [1e-8, 1e-10])
@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6])
def test_rounding_does_not_take_it_below_the_old_one(noise, jitter):
    """Little noise beside a high kernel, all rows inducing: what is unexplained is all rounding."""
    X, y = table()
    bounds = []
    for form in ("titsias2009", "tight"):
        model = dw.build(
            "dwp", X, y, depth=1, num_inducing=ROWS, output="collapsed", bound=form, jitter=jitter
        )
        with torch.no_grad():
            model.output.kernel.log_height.fill_(3.0)
            model.likelihood.log_noise.fill_(math.log(noise))
        bounds.append(bound(model, X, y))
    assert bounds[1] >= bounds[0] - 1e-9 * abs(bounds[0])
