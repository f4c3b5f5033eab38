"""Every layer fulfils the contract, and the contract notices layers that do not."""

import copy
import math
from dataclasses import replace

import pytest
import torch

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
    OutputLayer,
    StackedOutputLayer,
    WishartLayer,
)
from deepwishart.likelihoods import Gaussian
from deepwishart.testing import check_layer, check_output_layer
from tests.sabotage import broken

GENERATOR = torch.Generator().manual_seed(0)
POINTS = torch.randn(5, 2, generator=GENERATOR, dtype=torch.float64)
TARGETS = torch.randn(5, 3, generator=GENERATOR, dtype=torch.float64)


def kernel() -> SquaredExponential:
    return SquaredExponential(dtype=torch.float64)


def wishart(width: int, cls: type[WishartLayer] = WishartLayer, **options) -> WishartLayer:
    return cls(options.pop("kernel", kernel()), width, 5, **options)


def _started(layer: OutputLayer) -> OutputLayer:
    """Away from the prior, where no data have a gradient for the kernel."""
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
}
OUTPUTS = {
    "inducing": GPOutputLayer(kernel(), TARGETS),
    "inducing, one column": GPOutputLayer(Matern52(dtype=torch.float64), TARGETS[:, :1]),
    "doubly stochastic": DoublyStochasticOutputLayer(kernel(), POINTS, 3),
    "stacked": StackedOutputLayer(
        [GPOutputLayer(kernel(), TARGETS[:, :2]), GPOutputLayer(kernel(), 0.3 * TARGETS[:, 2:])]
    ),
    "stacked, doubly stochastic": StackedOutputLayer(
        [_started(DoublyStochasticOutputLayer(kernel(), POINTS, 1)) for _ in range(3)]
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


def altered(sample, ratio=None, inducing=None, **methods):
    """A sample that says something else of its ``log_ratio``, its ``inducing`` points, or where it
    has a method for it."""
    kind = broken(type(sample), **methods)
    if inducing:
        kind.inducing = property(lambda self: inducing(super(kind, self).inducing))
    sample = copy.copy(sample)
    sample.__class__ = kind
    sample.log_ratio = ratio(sample.log_ratio) if ratio else sample.log_ratio
    return sample


def changed(kind=WishartLayer, **changes) -> Layer:
    """A layer whose sample is altered."""

    def sample(self, parent, points, random, *, integrate=True):
        return altered(parent(points, random, integrate=integrate), **changes)

    made = broken(kind, sample=sample)
    return made(kernel(), 5) if kind is InverseWishartLayer else wishart(2, made)


def test_the_unbroken_relatives_of_the_broken_layers_pass() -> None:
    check_layer(changed(), POINTS)
    check_layer(changed(InverseWishartLayer), POINTS)


def _own_randomness(self, parent, *arguments):
    drawn = parent(*arguments)
    return drawn + 1e-12 * torch.randn_like(drawn)


def _remembers(self, parent, *arguments, **options):
    self.kl = (sample := parent(*arguments, **options)).log_ratio
    return sample


class _CountsItsCalls(WishartLayer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.register_buffer("calls", torch.zeros(()))

    def sample(self, inducing, random, *, integrate=True):
        self.calls += 1
        return super().sample(inducing, random, integrate=integrate)


def _first_layer_only(self, parent, inducing, random, **options):
    return parent(inducing * (1.0 + 0.1 * (inducing.ndim - 2)), random, **options)


def _centres_its_batch(self, parent, *arguments):
    drawn = parent(*arguments)
    return drawn - 0.1 * drawn.mean(-2, keepdim=True)


def _ignores_the_first_row(self, parent, rows, random, *joint):
    return parent(rows, replace(random, first_row=0, total_rows=None), *joint)


def _infinite_gradient(self, parent, rows, *arguments):
    drawn = parent(rows, *arguments)
    return drawn + 0.0 * (rows - rows.detach()).sum().abs().sqrt()


def _starts_at_infinity(self, parent, *arguments):
    started = parent(*arguments)
    self.mean.data.fill_(math.inf)
    return started


def given_instead(sample: ConditionalSample, given: Conditional) -> ConditionalSample:
    return ConditionalSample(sample.layer, sample.inputs, sample.log_ratio, given)


def _forgets_the_inducing_points(self, parent, *arguments):
    given = self.given
    halves = {name: 0.5 * getattr(given, name) for name in ("root", "weights", "solved")}
    return given_instead(self, given._replace(**halves)).rows(*arguments)


def _wider_alone(self, parent, rows, random, joint=False):
    drawn = parent(rows, random, joint)
    mean, _ = self.moments(rows)
    return drawn if joint else mean + 1.4 * (drawn - mean)


def _shifted_together(self, parent, rows, random, joint=False):
    return parent(rows, random, joint) + 0.1 * joint


def _half_a_gram_matrix(self, parent, *arguments):
    drawn = parent(*arguments)
    return GramRows(drawn.cross.mT, drawn.own)


def _less_when_drawn(self, parent, *arguments, integrate=True):
    sample = parent(*arguments, integrate=integrate)
    return sample if integrate else altered(sample, ratio=lambda ratio: ratio - 2.0)


def method(**changes) -> Layer:
    return wishart(2, broken(WishartLayer, **changes))


@pytest.mark.parametrize(
    ("layer", "violation"),
    [
        (changed(ratio=torch.neg), "positive mean"),
        (
            changed(ratio=lambda ratio: ratio.sum(-1, keepdim=True)),
            r"log p - log q has shape \(1,\)",
        ),
        (method(sample=_less_when_drawn), "with integrate=True and False differ in mean"),
        (
            changed(inducing=lambda inducing: inducing[..., :1]),
            r"inducing has shape \(3, 5, 1\) instead of \(3, 5, 2\)",
        ),
        (
            changed(inducing=lambda inducing: GramInducing(inducing @ inducing.mT)),
            "one is features and the other a Gram matrix",
        ),
        (
            changed(rows=lambda self, parent, *arguments: parent(*arguments).float()),
            "turns torch.float64 into torch.float32",
        ),
        (changed(rows=_own_randomness), "PyTorch's global generator"),
        (changed(rows=_centres_its_batch), "a row depends on the other rows of its batch"),
        (changed(rows=_ignores_the_first_row), "pieces of a batch differ from the batch"),
        (changed(rows=_infinite_gradient), "the gradient of rows is not finite"),
        (changed(rows=_forgets_the_inducing_points), "rows at the inducing points are not"),
        (changed(rows=_wider_alone), "two different mean squares"),
        (changed(rows=_shifted_together), "two different means"),
        (
            changed(InverseWishartLayer, rows=_half_a_gram_matrix),
            "rows with joint=False have shapes",
        ),
        (method(sample=_remembers), "sampling changes kl of the layer"),
        (wishart(2, _CountsItsCalls), "sampling changes calls of the layer"),
        (method(sample=_first_layer_only), "with and without a dimension for samples differ"),
        (
            method(prior=lambda self, parent, kernel_matrix: parent(kernel_matrix[0])),
            "a sample of its prior at 3 x 4 points has shape",
        ),
        (
            method(start_from=lambda self, parent, inducing, F: torch.full_like(F, math.nan)),
            "no finite starting values",
        ),
        (method(start_from=_starts_at_infinity), "after start_from, samples are not finite"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_contract_notices(layer: Layer, violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        check_layer(layer, POINTS)


def test_contract_notices_a_parameter_that_nothing_depends_on() -> None:
    layer = wishart(2)
    layer.unused = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    with pytest.raises(AssertionError, match="no gradient reaches unused"):
        check_layer(layer, POINTS)
    layer.unused.requires_grad_(False)
    check_layer(layer, POINTS)


# ---- output layers --------------------------------------------------------------------------


def output(**changes) -> GPOutputLayer:
    """A layer whose sample is altered."""

    def sample(self, parent, *arguments, **options):
        return altered(parent(*arguments, **options), **changes)

    return broken(GPOutputLayer, sample=sample)(kernel(), TARGETS)


def _wider(self, parent, rows):
    mean, variance = parent(rows)
    return mean, 1.01 * variance


def _needs_rows() -> GPOutputLayer:
    layer = GPOutputLayer(kernel(), TARGETS)
    layer.needs_rows = True
    return layer


def _detached(self, parent, *arguments):
    function = copy.copy(parent(*arguments))
    function.weights = function.weights.detach()
    return function


def _draws_another(self, parent, *arguments, integrate=True):
    sample = parent(*arguments, integrate=integrate)
    if not integrate:
        given = sample.function.given
        given = given._replace(weights=given.weights + 0.2, solved=given.solved + 0.2)
        sample.function = given_instead(sample.function, given)
    return sample


def test_the_unbroken_relative_of_the_broken_output_layers_passes() -> None:
    check_output_layer(output(), POINTS, Gaussian(3))


@pytest.mark.parametrize(
    ("layer", "violation"),
    [
        (output(ratio=torch.neg), "positive mean"),
        (
            output(summarise=lambda self, parent, *a: tuple(each.square() for each in parent(*a))),
            "summaries of parts do not add up",
        ),
        (
            output(data_term=lambda self, parent, *arguments: parent(*arguments).unsqueeze(-1)),
            r"data_term has shape \(1,\)",
        ),
        (
            output(predictor=lambda self, parent, *a: altered(parent(*a), moments=_wider)),
            "variances are not the diagonal",
        ),
        (_needs_rows(), "needs_rows is True, but its predictor says False"),
        (
            broken(GPOutputLayer, sample=_draws_another)(kernel(), TARGETS),
            "data_term with integrate=True and False differ in mean",
        ),
        (
            output(
                ratio=torch.Tensor.detach,
                data_term=lambda self, parent, *arguments: parent(*arguments).detach(),
                predictor=_detached,
            ),
            "no gradient reaches pseudo.targets",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_output_contract_notices(layer: GPOutputLayer, violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        check_output_layer(layer, POINTS, Gaussian(3))
