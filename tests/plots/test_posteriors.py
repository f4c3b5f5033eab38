"""Curves over one input hold the numbers they were given, on labelled axes."""

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

import deepwishart as dw
from deepwishart import plots
from deepwishart.posterior import FunctionSamples


@pytest.fixture(scope="module")
def curve_models() -> dict[str, dw.DeepKernelProcess]:
    """Of one input, with a hidden layer of width 2; built and not trained: pictures need no
    more."""
    generator = torch.Generator().manual_seed(5)
    X = torch.randn(14, 2, generator=generator, dtype=torch.float64)
    options = {"depth": 2, "width": 2, "num_inducing": 6}
    return {
        process: dw.build(process, X[:, :1], X.prod(1), **options)
        for process in ("dwp", "dgp", "dsvi", "diwp")
    }


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


X_DATA, Y_DATA = np.array([-1.0, 0.5]), np.array([0.25, -0.75])


def line(axes: Axes, x: np.ndarray) -> np.ndarray:
    """The y values of the one curve over x."""
    (found,) = [one for one in axes.lines if len(one.get_xdata()) == len(x)]
    assert np.array_equal(found.get_xdata(), x)
    return found.get_ydata()


def edges(axes: Axes, x: float) -> list[float]:
    """Where the band crosses a vertical line."""
    (band,) = axes.collections
    vertices = band.get_paths()[0].vertices
    return sorted({round(v, 12) for u, v in vertices if u == x})


def samples_of_two_features(rows: int) -> FunctionSamples:
    generator = torch.Generator().manual_seed(0)
    layer = torch.randn(3, rows, 2, generator=generator)
    return FunctionSamples(torch.randn(3, rows, 1, generator=generator), [layer])


def test_rows_may_come_in_any_order():
    x = np.array([2.0, 0.0, 1.0])
    shown = {"dwp": (samples_of_two_features(3), (10 * x, 1 + x))}
    axes = plots.posteriors(shown, x).axes[3]
    assert line(axes, np.sort(x)).tolist() == [0.0, 10.0, 20.0]
    assert edges(axes, 1.0) == [6.0, 14.0]  # two standard deviations


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi"])
def test_four_panels(curve_models, process, generator):
    x = torch.linspace(-3, 3, 9, dtype=torch.float64)[:, None]
    model = curve_models[process]
    samples = model.sample_functions(x, 4, generator)
    prediction = model.predict(x, num_samples=5, generator=generator)
    shown = {process: (samples, (prediction.mean, prediction.stddev))}
    figure = plots.posteriors(shown, x, data=(X_DATA, Y_DATA))
    assert len(figure.axes) == 4
    assert all(axes.get_ylabel() for axes in figure.axes)
    assert [axes.get_xlabel() for axes in figure.axes[2:]] == ["input", "input"]
    panels = {axes.get_title(loc="left").removeprefix(f"{process}: "): axes for axes in figure.axes}
    for title, values in {
        "first layer, $f_1$": samples.layers[0][..., 0],
        "first layer, $f_2$": samples.layers[0][..., 1],
        "posterior functions": samples.functions[..., 0],
    }.items():
        drawn = [one.get_ydata() for one in panels[title].lines if len(one.get_xdata()) == 9]
        assert np.array_equal(np.array(drawn), values.numpy())
    assert np.array_equal(line(panels["prediction"], x[:, 0].numpy()), prediction.mean.numpy())


def test_rotated_features_have_the_same_gram_matrices(curve_models, generator):
    """And no sample is pinned to zero where the root is: at the first inducing point."""
    model = curve_models["dwp"]
    first = model.inducing_inputs[:1].detach()
    samples = model.sample_functions(first, 20, generator)
    assert torch.allclose(samples.layers[0][..., 1], torch.zeros(20, 1).double(), atol=0.01)
    rotated = samples.rotated(generator)
    assert rotated.functions is samples.functions
    assert rotated.layers[0][..., 1].abs().median() > 0.05
    for before, after in zip(samples.layers, rotated.layers, strict=True):
        torch.testing.assert_close(after @ after.mT, before @ before.mT)


def test_rotations_are_uniform(generator):
    """Each of the two signs of the determinant, and each direction, is as likely as any."""
    unit = torch.eye(2, dtype=torch.float64).expand(4000, 2, 2)
    drawn = FunctionSamples(torch.zeros(4000, 2, 1), [unit]).rotated(generator).layers[0]
    assert abs(torch.linalg.det(drawn).mean()) < 0.05
    angle = torch.atan2(drawn[:, 0, 1], drawn[:, 0, 0])
    for harmonic in (1, 2, 3):
        assert (harmonic * angle).cos().mean().abs() < 0.04


def test_what_panels_are_not_for(curve_models):
    x = torch.linspace(-1, 1, 5, dtype=torch.float64)[:, None]
    flat, good = (np.zeros(5), np.ones(5)), samples_of_two_features(5)
    shallow = dw.build("dwp", x, x, depth=1, num_inducing=3).sample_functions(x, 2)
    gram = curve_models["diwp"].sample_functions(x, 3)
    two_targets = FunctionSamples(torch.zeros(3, 5, 2), good.layers)
    for inputs, samples, prediction, message in (
        (x, gram, flat, "Gram matrices only"),
        (x, shallow, flat, "depth 1 has none"),
        (x[:4], good, flat, "one input and one target"),
        (x, two_targets, flat, "one input and one target"),
    ):
        with pytest.raises(ValueError, match=message):
            plots.posteriors({"dwp": (samples, prediction)}, inputs)
