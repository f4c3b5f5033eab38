"""Every layer fulfils the contract, and the contract notices layers that do not."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from deepwishart.kernels import ArcCosine, Matern52, SquaredExponential
from deepwishart.layers import (
    CollapsedOutputLayer,
    Conditional,
    ConditionalSample,
    DoublyStochasticLayer,
    DoublyStochasticOutputLayer,
    GlobalInducingLayer,
    GPOutputLayer,
    GramInducing,
    GramRows,
    InverseWishartLayer,
    Layer,
    LayerSample,
    OutputLayer,
    OutputSample,
    StackedOutputLayer,
    WishartLayer,
)
from deepwishart.layers.gaussian import ProjectedSample
from deepwishart.likelihoods import Gaussian
from deepwishart.testing import check_layer, check_output_layer

GENERATOR = torch.Generator().manual_seed(0)
POINTS = torch.randn(5, 2, generator=GENERATOR, dtype=torch.float64)
TARGETS = torch.randn(5, 3, generator=GENERATOR, dtype=torch.float64)


def kernel() -> SquaredExponential:
    return SquaredExponential(dtype=torch.float64)


def wishart(width: int, cls: type[WishartLayer] = WishartLayer, **options) -> WishartLayer:
    return cls(options.pop("kernel", kernel()), width, 5, **options)


def away_from_the_prior(layer: DoublyStochasticOutputLayer) -> DoublyStochasticOutputLayer:
    """At the prior, the moments of rows do not depend on lengthscales."""
    layer.start_from(POINTS, TARGETS[:, : layer.width], precision=9.0)
    return layer


LAYERS = {
    "wishart, singular": wishart(2),
    "wishart, square": wishart(5),
    "wishart, wide": wishart(7),
    "wishart, ARD": wishart(3, kernel=SquaredExponential(num_features=2, dtype=torch.float64)),
    "wishart, arc cosine": wishart(3, kernel=ArcCosine(dtype=torch.float64)),
    "wishart, pathwise gradient": wishart(3, sticking_the_landing=False),
    "global inducing": GlobalInducingLayer(kernel(), TARGETS),
    "inverse wishart": InverseWishartLayer(kernel(), 5),
    "doubly stochastic": DoublyStochasticLayer(kernel(), POINTS, 3),
    "doubly stochastic, mean": DoublyStochasticLayer(
        kernel(), POINTS, 2, mean_weights=torch.eye(2, dtype=torch.float64)
    ),
}
OUTPUTS = {
    "inducing": GPOutputLayer(kernel(), TARGETS),
    "inducing, one column": GPOutputLayer(Matern52(dtype=torch.float64), TARGETS[:, :1]),
    "doubly stochastic": DoublyStochasticOutputLayer(kernel(), POINTS, 3),
    "stacked": StackedOutputLayer(
        [GPOutputLayer(kernel(), TARGETS[:, :2]), GPOutputLayer(kernel(), 0.3 * TARGETS[:, 2:])]
    ),
    "stacked, doubly stochastic": StackedOutputLayer(
        [away_from_the_prior(DoublyStochasticOutputLayer(kernel(), POINTS, 1)) for _ in range(3)]
    ),
    "collapsed": CollapsedOutputLayer(kernel(), 3),
    "collapsed, matern": CollapsedOutputLayer(Matern52(dtype=torch.float64), 1),
    "collapsed, own points": CollapsedOutputLayer(kernel(), 2, inducing_inputs=POINTS + 0.1),
}
PRECISIONS = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["64", "32"])


@PRECISIONS
@pytest.mark.parametrize("name", LAYERS)
def test_contract(name: str, dtype: torch.dtype) -> None:
    check_layer(LAYERS[name], POINTS, dtype=dtype)


@PRECISIONS
@pytest.mark.parametrize("name", OUTPUTS)
def test_output_contract(name: str, dtype: torch.dtype) -> None:
    layer = OUTPUTS[name]
    check_output_layer(layer, POINTS, Gaussian(layer.width), dtype=dtype)


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


class _ChangedSample(LayerSample):
    """A sample of which a layer changes what it says."""

    def __init__(self, layer: Layer, sample: LayerSample, integrate: bool) -> None:
        self.layer, self.sample, self.integrate = layer, sample, integrate

    @property
    def inducing(self):
        return self.layer.change_inducing(self.sample.inducing)

    @property
    def log_ratio(self):
        return self.layer.change_ratio(self.sample.log_ratio, self.integrate)

    def rows(self, rows, random, joint=False):
        return self.layer.change_rows(self.sample, rows, random, joint)


class _Changes:
    """Nothing, in this class."""

    def sample(self, inducing, random, *, integrate=True):
        return _ChangedSample(
            self, super().sample(inducing, random, integrate=integrate), integrate
        )

    def change_inducing(self, inducing):
        return inducing

    def change_ratio(self, ratio, integrate):
        return ratio

    def change_rows(self, sample, rows, random, joint):
        return sample.rows(rows, random, joint)


class _Changed(_Changes, WishartLayer):
    pass


class _ChangedGram(_Changes, InverseWishartLayer):
    pass


def test_the_unbroken_relatives_of_the_broken_layers_pass() -> None:
    check_layer(wishart(2, _Changed), POINTS)
    check_layer(_inverse_wishart(_ChangedGram), POINTS)


class _WrongSign(_Changed):
    def change_ratio(self, ratio, integrate):
        return -ratio


class _SummedRatio(_Changed):
    def change_ratio(self, ratio, integrate):
        return ratio.sum(-1, keepdim=True)


class _OtherDensity(_Changed):
    def change_ratio(self, ratio, integrate):
        return ratio if integrate else ratio - 2.0


class _MissingColumn(_Changed):
    def change_inducing(self, inducing):
        return inducing[..., :1]


class _GramOfFeatures(_Changed):
    def change_inducing(self, inducing):
        return GramInducing(inducing @ inducing.mT)


class _Downcast(_Changed):
    def change_rows(self, sample, rows, random, joint):
        return sample.rows(rows, random, joint).float()


class _OwnRandomness(_Changed):
    def change_rows(self, sample, rows, random, joint):
        drawn = sample.rows(rows, random, joint)
        return drawn + 1e-12 * torch.randn_like(drawn)


class _Remembers(WishartLayer):
    def sample(self, inducing, random, *, integrate=True):
        self.kl = (sample := super().sample(inducing, random, integrate=integrate)).log_ratio
        return sample


class _CountsItsCalls(WishartLayer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.register_buffer("calls", torch.zeros(()))

    def sample(self, inducing, random, *, integrate=True):
        self.calls += 1
        return super().sample(inducing, random, integrate=integrate)


class _FirstLayerOnly(WishartLayer):
    def sample(self, inducing, random, *, integrate=True):
        inducing = inducing * (1.0 + 0.1 * (inducing.ndim - 2))
        return super().sample(inducing, random, integrate=integrate)


class _CentresItsBatch(_Changed):
    def change_rows(self, sample, rows, random, joint):
        drawn = sample.rows(rows, random, joint)
        return drawn - 0.1 * drawn.mean(-2, keepdim=True)


class _IgnoresTheFirstRow(_Changed):
    def change_rows(self, sample, rows, random, joint):
        return sample.rows(rows, replace(random, first_row=0, total_rows=None), joint)


class _InfiniteGradient(_Changed):
    def change_rows(self, sample, rows, random, joint):
        drawn = sample.rows(rows, random, joint)
        return drawn + 0.0 * (rows - rows.detach()).sum().abs().sqrt()


class _BadPrior(WishartLayer):
    def prior(self, kernel_matrix):
        return super().prior(kernel_matrix[0])


class _BadStart(WishartLayer):
    def start_from(self, inducing, features, noise=0.03):
        return torch.full_like(features, math.nan)


class _StartsAtInfinity(WishartLayer):
    def start_from(self, inducing, features, noise=0.03):
        started = super().start_from(inducing, features, noise)
        with torch.no_grad():
            self.mean.fill_(math.inf)
        return started


def given_instead(sample: ConditionalSample, given: Conditional) -> ConditionalSample:
    return ConditionalSample(sample.layer, sample.inputs, sample.log_ratio, given)


class _ForgetsTheInducingPoints(_Changed):
    def change_rows(self, sample, rows, random, joint):
        given = sample.given
        given = given._replace(weights=0.5 * given.weights, form=None, solved=None)
        return given_instead(sample, given).rows(rows, random, joint)


class _WiderAlone(_Changed):
    def change_rows(self, sample, rows, random, joint):
        drawn = sample.rows(rows, random, joint)
        mean, _ = sample.moments(rows)
        return drawn if joint else mean + 1.4 * (drawn - mean)


class _ShiftedTogether(_Changed):
    def change_rows(self, sample, rows, random, joint):
        return sample.rows(rows, random, joint) + 0.1 * joint


class _HalfAGramMatrix(_ChangedGram):
    def change_rows(self, sample, rows, random, joint):
        drawn = sample.rows(rows, random, joint)
        return GramRows(drawn.cross.mT, drawn.own)


def _inverse_wishart(cls: type[InverseWishartLayer]) -> InverseWishartLayer:
    return cls(kernel(), 5)


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
        (wishart(2, _IgnoresTheFirstRow), "pieces of a batch differ from the batch"),
        (wishart(2, _InfiniteGradient), "the gradient of rows is not finite"),
        (wishart(2, _BadPrior), "a sample of its prior at 3 x 4 points has shape"),
        (wishart(2, _BadStart), "no finite starting values"),
        (_inverse_wishart(_HalfAGramMatrix), "rows with joint=False have shapes"),
        (wishart(2, _MissingColumn), r"inducing has shape \(3, 5, 1\) instead of \(3, 5, 2\)"),
        (wishart(2, _GramOfFeatures), "one is features and the other a Gram matrix"),
        (wishart(2, _OtherDensity), "with integrate=True and False differ in mean"),
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


# ---- output layers --------------------------------------------------------------------------


class _ChangedOutput(OutputSample):
    def __init__(self, layer: OutputLayer, sample: OutputSample) -> None:
        self.layer, self.sample = layer, sample

    @property
    def log_ratio(self):
        return self.layer.change_ratio(self.sample.log_ratio)

    def summarise(self, rows, targets, likelihood):
        return self.layer.change_summary(self.sample.summarise(rows, targets, likelihood), rows)

    def data_term(self, summary, likelihood):
        return self.layer.change_term(self.sample.data_term(summary, likelihood))

    def predictor(self, summary, likelihood):
        return self.layer.change_predictor(self.sample.predictor(summary, likelihood))


class _Output(GPOutputLayer):
    """Nothing is changed, in this class."""

    def sample(self, inducing, random, *, integrate=True):
        return _ChangedOutput(self, super().sample(inducing, random, integrate=integrate))

    def change_ratio(self, ratio):
        return ratio

    def change_summary(self, summary, rows):
        return summary

    def change_term(self, term):
        return term

    def change_predictor(self, function):
        return function


class _WrongRatio(_Output):
    def change_ratio(self, ratio):
        return -ratio


class _AverageOfRows(_Output):
    def change_summary(self, summary, rows):
        return tuple(part / rows.shape[-2] for part in summary)


class _TermPerColumn(_Output):
    def change_term(self, term):
        return term.unsqueeze(-1)


class _OtherMoments(_Output):
    def change_predictor(self, function):
        moments = function.moments

        def wider(rows):
            mean, variance = moments(rows)
            return mean, 1.01 * variance

        object.__setattr__(function, "moments", wider)
        return function


class _SaysItNeedsRows(_Output):
    needs_rows = True


class _DetachedTerm(_Output):
    def change_term(self, term):
        return term.detach()

    def change_ratio(self, ratio):
        return ratio.detach()

    def change_predictor(self, function):
        if type(function) is not ProjectedSample:
            return function
        return replace(function, weights=function.weights.detach())


class _DrawsAnother(GPOutputLayer):
    def sample(self, inducing, random, *, integrate=True):
        sample = super().sample(inducing, random, integrate=integrate)
        if not integrate:
            given = sample.function.given
            given = given._replace(weights=given.weights + 0.2, form=None, solved=None)
            sample.function = given_instead(sample.function, given)
        return sample


def test_the_unbroken_relative_of_the_broken_output_layers_passes() -> None:
    check_output_layer(_Output(kernel(), TARGETS), POINTS, Gaussian(3))


@pytest.mark.parametrize(
    ("cls", "violation"),
    [
        (_WrongRatio, "positive mean"),
        (_AverageOfRows, "summaries of parts do not add up"),
        (_TermPerColumn, r"data_term has shape \(1,\)"),
        (_OtherMoments, "variances are not the diagonal"),
        (_SaysItNeedsRows, "needs_rows is true, but it predicts without any"),
        (_DrawsAnother, "data_term with integrate=True and False differ in mean"),
        (_DetachedTerm, "no gradient reaches pseudo.targets"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_output_contract_notices(cls: type[GPOutputLayer], violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        check_output_layer(cls(kernel(), TARGETS), POINTS, Gaussian(3))


def test_layer_and_likelihood_have_to_fit() -> None:
    with pytest.raises(ValueError, match="The layer has 3 columns, but Gaussian needs 2"):
        check_output_layer(GPOutputLayer(kernel(), TARGETS), POINTS, Gaussian(2))
