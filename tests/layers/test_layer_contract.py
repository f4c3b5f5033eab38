"""Every layer fulfils the contract, and the contract notices layers that do not."""

import math

import pytest
import torch
from torch import Tensor

from deepwishart.kernels import ArcCosine, Matern52, SquaredExponential
from deepwishart.layers import (
    DoublyStochasticLayer,
    GlobalInducingLayer,
    GPOutputLayer,
    GramRows,
    InverseWishartLayer,
    Layer,
    WishartLayer,
)
from deepwishart.layers.base import GaussianState
from deepwishart.testing import check_layer

GENERATOR = torch.Generator().manual_seed(0)
POINTS = torch.randn(5, 2, generator=GENERATOR, dtype=torch.float64)
TARGETS = torch.randn(5, 3, generator=GENERATOR, dtype=torch.float64)


def kernel() -> SquaredExponential:
    return SquaredExponential(dtype=torch.float64)


def wishart(width: int, cls: type[WishartLayer] = WishartLayer, **options) -> WishartLayer:
    generator = torch.Generator().manual_seed(1)
    return cls(options.pop("kernel", kernel()), width, 5, generator=generator, **options)


LAYERS = {
    "wishart, singular": wishart(2),
    "wishart, square": wishart(5),
    "wishart, wide": wishart(7),
    "wishart, ARD": wishart(3, kernel=SquaredExponential(num_features=2, dtype=torch.float64)),
    "wishart, arc cosine": wishart(3, kernel=ArcCosine(dtype=torch.float64)),
    "wishart, pathwise gradient": wishart(3, sticking_the_landing=False),
    "global inducing": GlobalInducingLayer(kernel(), TARGETS),
    "output": GPOutputLayer(kernel(), TARGETS),
    "output, matern": GPOutputLayer(Matern52(dtype=torch.float64), TARGETS[:, :1]),
    "inverse wishart": InverseWishartLayer(kernel(), 5, generator=GENERATOR),
    "doubly stochastic": DoublyStochasticLayer(kernel(), POINTS, 3, scale=1 / 3),
    "doubly stochastic, mean": DoublyStochasticLayer(
        kernel(), POINTS, 2, scale=0.5, mean_weights=torch.eye(2, dtype=torch.float64)
    ),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", LAYERS)
def test_contract(name: str, dtype: torch.dtype) -> None:
    check_layer(LAYERS[name], POINTS, dtype=dtype)


def test_the_check_leaves_the_layer_alone() -> None:
    layer = wishart(2)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    check_layer(layer, POINTS, dtype=torch.float32)
    for name, value in layer.state_dict().items():
        assert value.dtype == torch.float64
        assert torch.equal(value, before[name])
    assert all(parameter.grad is None for parameter in layer.parameters())


def test_inducing_points_need_two_dimensions() -> None:
    with pytest.raises(ValueError, match=r"shape \(P, D\), got \(5,\)"):
        check_layer(wishart(2), POINTS[:, 0])


class _WrongSign(WishartLayer):
    def sample_inducing(self, inducing, noise):
        state, log_ratio = super().sample_inducing(inducing, noise)
        return state, -log_ratio


class _SummedRatio(WishartLayer):
    def sample_inducing(self, inducing, noise):
        state, log_ratio = super().sample_inducing(inducing, noise)
        return state, log_ratio.sum(-1, keepdim=True)


class _Downcast(WishartLayer):
    def sample_rows(self, state, rows, noise, joint=False):
        return super().sample_rows(state, rows, noise, joint).float()


class _OwnRandomness(WishartLayer):
    def sample_rows(self, state, rows, noise, joint=False):
        drawn = super().sample_rows(state, rows, noise, joint)
        return drawn + 1e-12 * torch.randn_like(drawn)


class _Remembers(WishartLayer):
    def sample_inducing(self, inducing, noise):
        state, self.kl = super().sample_inducing(inducing, noise)
        return state, self.kl


class _CountsItsCalls(WishartLayer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.register_buffer("calls", torch.zeros(()))

    def sample_inducing(self, inducing, noise):
        self.calls += 1
        return super().sample_inducing(inducing, noise)


class _FirstLayerOnly(WishartLayer):
    def sample_inducing(self, inducing, noise):
        return super().sample_inducing(inducing * (1.0 + 0.1 * (inducing.ndim - 2)), noise)


class _CentresItsBatch(WishartLayer):
    def sample_rows(self, state, rows, noise, joint=False):
        drawn = super().sample_rows(state, rows, noise, joint)
        return drawn - 0.1 * drawn.mean(-2, keepdim=True)


class _IgnoresRowIndex(WishartLayer):
    def sample_rows(self, state, rows, noise, joint=False):
        if joint:
            return super().sample_rows(state, rows, noise, joint)
        mean, variance = self.moments(state, rows)
        fresh = noise.normal(1 if noise.shared_rows else mean.shape[-2], mean.shape[-1])
        return mean + variance.sqrt() * fresh


class _InfiniteGradient(WishartLayer):
    def sample_rows(self, state, rows, noise, joint=False):
        drawn = super().sample_rows(state, rows, noise, joint)
        return drawn + 0.0 * (rows - rows.detach()).sum().abs().sqrt()


class _BadPrior(WishartLayer):
    def prior(self, kernel_matrix):
        return super().prior(kernel_matrix[0])


class _BadStart(WishartLayer):
    def start_from(self, inducing, features):
        return torch.full_like(features, math.nan)


class _StartsAtInfinity(WishartLayer):
    def start_from(self, inducing, features):
        started = super().start_from(inducing, features)
        with torch.no_grad():
            self.loc.fill_(math.inf)
        return started


class _OtherDensity(GPOutputLayer):
    def draw_inducing(self, inducing, noise):
        state, log_ratio = super().draw_inducing(inducing, noise)
        return state, log_ratio - 0.5 * self.pseudo_targets.numel()


class _ForgetsTheInducingPoints(WishartLayer):
    def sample_rows(self, state, rows, noise, joint=False):
        half = GaussianState(state.inputs, state.projection, 0.5 * state.weights, state.outputs)
        return super().sample_rows(half, rows, noise, joint)


class _WiderAlone(WishartLayer):
    def moments(self, state, rows):
        mean, variance = super().moments(state, rows)
        return mean, 2.0 * variance


class _ShiftedTogether(WishartLayer):
    def joint_moments(self, state, rows):
        mean, covariance = super().joint_moments(state, rows)
        return mean + 0.1, covariance


class _HalfAGramMatrix(InverseWishartLayer):
    def sample_rows(self, state, rows, noise, joint=False):
        drawn = super().sample_rows(state, rows, noise, joint)
        return GramRows(drawn.cross.mT, drawn.diagonal)


def _inverse_wishart(cls: type[InverseWishartLayer]) -> InverseWishartLayer:
    return cls(kernel(), 5, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("layer", "violation"),
    [
        (wishart(2, _WrongSign), "positive mean"),
        (wishart(2, _SummedRatio), r"log p - log q has shape \(1,\)"),
        (wishart(2, _Downcast), "turns torch.float64 into torch.float32"),
        (wishart(2, _OwnRandomness), "PyTorch's global generator"),
        (wishart(2, _Remembers), "sampling changes kl of the layer"),
        (wishart(2, _CountsItsCalls), "sampling changes calls of the layer"),
        (wishart(2, _FirstLayerOnly), "with and without a dimension for samples differ"),
        (wishart(2, _CentresItsBatch), "a row depends on the other rows of its batch"),
        (wishart(2, _IgnoresRowIndex), "pieces of a batch differ from the batch"),
        (wishart(2, _InfiniteGradient), "the gradient of rows is not finite"),
        (wishart(2, _BadPrior), "a sample of its prior at 3 x 4 points has shape"),
        (wishart(2, _BadStart), "no finite starting values"),
        (_inverse_wishart(_HalfAGramMatrix), "rows with joint=False have shapes"),
        (_OtherDensity(kernel(), TARGETS), "sample_inducing and of draw_inducing differ in mean"),
        (wishart(2, _ForgetsTheInducingPoints), "rows at the inducing points are not"),
        (wishart(2, _WiderAlone), "two different mean squares"),
        (wishart(2, _ShiftedTogether), "two different means"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Layer) else "",
)
def test_contract_notices(layer: Layer, violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        check_layer(layer, POINTS)


class _UselessParameter(WishartLayer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.unused = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))


def test_contract_notices_a_parameter_that_nothing_depends_on() -> None:
    layer = wishart(2, _UselessParameter)
    with pytest.raises(AssertionError, match="no gradient reaches unused"):
        check_layer(layer, POINTS)
    layer.unused.requires_grad_(False)
    check_layer(layer, POINTS)


def test_a_broken_start_is_noticed_where_it_shows() -> None:
    with pytest.raises(AssertionError, match="after start_from, samples are not finite"):
        check_layer(wishart(2, _StartsAtInfinity), POINTS)


def test_randomness_of_the_points_is_the_caller_s() -> None:
    state: Tensor = torch.random.get_rng_state()
    check_layer(wishart(2), POINTS)
    assert torch.equal(state, torch.random.get_rng_state())
