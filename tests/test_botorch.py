"""The surrogate for BoTorch: the regressor's posterior, jointly over candidates and with gradients,
and good enough to optimise with."""

import importlib
import sys

import numpy as np
import pytest
import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.generation.sampling import MaxPosteriorSampling
from botorch.optim import optimize_acqf
from sklearn.exceptions import NotFittedError
from torch import Tensor

from deepwishart import DeepKernelRegressor
from deepwishart.botorch import DeepKernelModel, MixturePosterior
from deepwishart.likelihoods import Likelihood

# Models are trained for a few steps, or on a few rows, and say so.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The bound, "),
    pytest.mark.filterwarnings("ignore:Training ended after"),
    pytest.mark.filterwarnings("ignore:. rows cannot tell"),
]
UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.float64)


def forrester(x: Tensor) -> Tensor:
    """Upside down; its maximum is 6.0207 at 0.7572 (Forrester, Sobester and Keane, 2008)."""
    return -((6 * x - 2) ** 2) * torch.sin(12 * x - 4)


def fitted(**changes) -> tuple[DeepKernelRegressor, Tensor, Tensor]:
    X = torch.linspace(0, 1, 7, dtype=torch.float64)[:, None]
    y = torch.cat([forrester(X), 100 + X], dim=1)
    y += y.std(0) * 0.3 * torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    options = {"depth": 2, "width": 3, "max_iter": 60, "n_predict_samples": 6, "random_state": 0}
    return DeepKernelRegressor(**(options | changes)).fit(X, y), X, y


@pytest.fixture(scope="module")
def regressor() -> DeepKernelRegressor:
    """Of two outcomes."""
    return fitted()[0]


@pytest.fixture(scope="module")
def model(regressor) -> DeepKernelModel:
    return DeepKernelModel(regressor, num_samples=6, seed=regressor.seed_)


def candidates(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(*shape, 1, generator=generator, dtype=torch.float64)


def test_moments_are_those_of_the_regressor(regressor, model):
    X = candidates(9)
    mean, std = regressor.predict(X, return_std=True)
    found = model.posterior(X[:, None], observation_noise=True)  # batches of one
    np.testing.assert_allclose(found.mean[:, 0].detach(), mean, rtol=1e-10)
    np.testing.assert_allclose(found.variance[:, 0].sqrt().detach(), std, rtol=1e-8)
    assert model.num_outputs == 2 and model.batch_shape == ()
    without = model.posterior(X[:, None]).variance
    noise = (
        regressor.model_.likelihood.noise * torch.as_tensor(regressor._scaled.targets.scale) ** 2
    )
    torch.testing.assert_close(found.variance - without, noise.expand(9, 1, 2), rtol=1e-6, atol=0)
    second = model.posterior(X[:, None], output_indices=[1])
    torch.testing.assert_close(second.mean, found.mean[..., 1:])
    first = model.posterior(X[:, None], posterior_transform=lambda each, X: each.mean[..., 0])
    torch.testing.assert_close(first, found.mean[..., 0])


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
@pytest.mark.parametrize("output", ["collapsed", "inducing"])
def test_draws_are_differentiable(process, output):
    made, _, _ = fitted(process=process, output=output, max_iter=2, n_inducing=5)
    model = DeepKernelModel(made, num_samples=3)
    for X in (candidates(2, 1), candidates(2, 2)):
        noise = torch.randn(4, 1, *X.shape[1:-1], 2, dtype=torch.float64)

        def draw(X: Tensor, noise: Tensor = noise) -> Tensor:
            return model.posterior(X).rsample_from_base_samples(torch.Size([4]), noise)

        assert torch.autograd.gradcheck(draw, X.requires_grad_(), atol=1e-4)


def test_a_batch_does_not_depend_on_its_company(model):
    X = candidates(2, 3, 2)
    noise = torch.randn(5, 1, 1, 2, 2, dtype=torch.float64)
    together = model.posterior(X).rsample_from_base_samples(torch.Size([5]), noise)
    assert together.shape == (5, 2, 3, 2, 2)
    alone = model.posterior(X[1, 2]).rsample_from_base_samples(torch.Size([5]), noise[:, 0, 0])
    torch.testing.assert_close(together[:, 1, 2], alone, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi"])
def test_the_first_of_a_batch_is_answered_as_if_alone(process):
    """Of few samples, where other noise of the hidden layers would be seen. Jitter, of 1e-3
    standard deviations of a layer, is what is left, times the slopes of the layers above."""
    made, _, _ = fitted(process=process, depth=3)
    model, X = DeepKernelModel(made, num_samples=3), candidates(4, 3)
    batch, alone = model.posterior(X), model.posterior(X[:, :1])
    scale = torch.as_tensor(made._scaled.targets.scale)
    means = (batch.means - alone.means).abs() / scale
    spread = (batch.variance.sqrt()[:, :1] - alone.variance.sqrt()).abs() / scale
    assert means[..., :1, :].max() < 0.02 and spread.max() < 0.02
    assert means[..., 1:, :].max() > 0.1


def test_candidates_of_a_batch_are_drawn_jointly(model):
    """Two of them at one place have one value, up to jitter; marginals are the same as alone."""
    X = torch.tensor([[0.35], [0.35 + 1e-9], [0.9]], dtype=torch.float64)
    torch.manual_seed(0)
    posterior = model.posterior(X)
    drawn = posterior.rsample(torch.Size([4000]))[..., 0].detach()
    spread = drawn.std(0)
    assert (drawn[:, 0] - drawn[:, 1]).std() < 0.05 * spread[0]
    assert (drawn[:, 0] - drawn[:, 2]).std() > 0.5 * spread[0]
    torch.testing.assert_close(drawn.mean(0), posterior.mean[:, 0].detach(), atol=0.1, rtol=0)
    torch.testing.assert_close(spread.square(), posterior.variance[:, 0].detach(), rtol=0.1, atol=0)


def test_a_function_that_is_known_exactly_has_no_negative_variance():
    X = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    made = DeepKernelRegressor(depth=1, max_iter=200, random_state=0).fit(X, 100 + X)
    for batch in (X[:, None], X):
        found = DeepKernelModel(made, num_samples=2).posterior(batch)
        assert (found.variance > 0).all() and found.rsample().isfinite().all()


def test_every_component_has_its_turn():
    means, roots = torch.arange(3.0)[:, None, None], torch.zeros(3, 1, 1, 1)
    posterior = MixturePosterior(means, roots)
    drawn = posterior.rsample_from_base_samples(torch.Size([2, 3]), torch.zeros(2, 3, 1, 1))
    assert drawn.flatten().tolist() == [0, 1, 2, 0, 1, 2]
    torch.manual_seed(0)
    assert posterior.sample(torch.Size([50])).unique().tolist() == [0, 1, 2]
    assert posterior.rsample().shape == (1, 1)


# BoTorch says so when a line search fails at one of its starts, and begins again elsewhere.
@pytest.mark.filterwarnings("ignore:Optimization failed")
def test_optimises_a_known_function():
    torch.manual_seed(0)
    X = torch.linspace(0, 1, 4, dtype=torch.float64)[:, None]
    y = forrester(X)
    assert y.max() < 3.1
    regressor = DeepKernelRegressor(depth=2, width=3, max_iter=100, random_state=0)
    for q in (1, 1, 1, 1, 2):
        model = DeepKernelModel(regressor.fit(X, y), num_samples=32)
        acquisition = qLogExpectedImprovement(model, best_f=y.max())
        found, _ = optimize_acqf(
            acquisition, UNIT, q=q, num_restarts=3, raw_samples=24, options={"maxiter": 20}
        )
        X, y = torch.cat([X, found]), torch.cat([y, forrester(found)])
    assert y.max() > 5.7
    model = DeepKernelModel(regressor.fit(X, y), num_samples=32)  # knows the last two as well
    thompson = MaxPosteriorSampling(model, replacement=False)
    chosen = thompson(torch.linspace(0, 1, 51, dtype=torch.float64)[:, None], num_samples=4)
    assert ((chosen - 0.757).abs() < 0.1).all() and len(chosen.unique()) == 4


def test_what_it_is_not_for(regressor, model):
    with pytest.raises(NotFittedError):
        DeepKernelModel(DeepKernelRegressor())
    with pytest.raises(ValueError, match=r"\(..., q, 1\), got \(3, 2\)"):
        model.posterior(torch.zeros(3, 2))
    with pytest.raises(TypeError, match="True or False"):
        model.posterior(torch.zeros(3, 1), observation_noise=torch.ones(3, 1))

    class Other(Likelihood):
        def distribution(self, latents):
            raise NotImplementedError

    changed, _, _ = fitted(max_iter=1, n_inducing=3)
    changed.model_.likelihood = Other(num_outputs=2)
    with pytest.raises(TypeError, match="The regressor has Other targets"):
        DeepKernelModel(changed)


@pytest.mark.parametrize(
    ("name", "missing"), [("botorch", "botorch.models.model"), ("skpro", "skpro.distributions")]
)
def test_without_the_other_library_the_error_says_what_to_install(name, missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, f"deepwishart.{name}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'deepwishart\[{name}\]'"):
        importlib.import_module(f"deepwishart.{name}")
