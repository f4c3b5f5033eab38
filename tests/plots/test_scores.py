"""Pictures of predictions: one row, many rows, calibration, coverage; and training curves."""

import numpy as np
import pytest
import torch

from deepwishart import metrics, plots
from deepwishart.training import History

Y = np.array([-2.0, -0.5, 0.5, 1.0])
STANDARD = (np.zeros(4), np.ones(4))


def labelled(figure) -> bool:
    return all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes)


def test_coverage():
    figure = plots.coverage({"dwp": STANDARD, "dgp": (np.zeros(4), 9 * np.ones(4))}, Y)
    (axes,) = figure.axes
    assert labelled(figure)
    curves = {one.get_label(): one for one in axes.lines}
    levels = curves["dwp"].get_xdata()
    # A standard normal: 0.5 lies on the edge of the 38% interval, 1 of the 68%, 2 of the 95.4%.
    expected = np.select([levels < 0.383, levels < 0.683], [0.0, 0.5], 0.75)
    assert np.array_equal(curves["dwp"].get_ydata(), expected)
    assert curves["dgp"].get_ydata()[4] == 1.0  # far too wide


def test_calibration():
    curve = metrics.calibration_curve(STANDARD, Y)
    figure = plots.calibration({"dwp": curve}, num_rows=4)
    assert labelled(figure)
    drawn = {one.get_label(): one for one in figure.axes[0].lines}["dwp"]
    assert np.array_equal(drawn.get_xydata(), np.c_[curve.levels, curve.observed])


def test_predictions():
    centre = np.array([3.0, 1.0, 2.0, 0.0])
    figure = plots.predictions({"dwp": (centre, centre - 1, centre + 1)}, centre + Y, target="EUR")
    (axes,) = figure.axes
    assert labelled(figure) and axes.get_ylabel() == "EUR"
    shown = {tuple(point) for one in axes.lines[1:] for point in one.get_xydata()}
    assert shown == {(1.0, 1.0), (2.0, 0.5), (3.0, 2.5), (4.0, 1.0)}
    assert axes.lines[2].get_xydata().tolist() == [[4.0, 1.0]]  # the one outside, as a cross


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
def test_one_row(models, data, process, generator):
    prediction = models[process].predict(data[0], num_samples=7, generator=generator)
    figure = plots.row_distribution({process: prediction}, 3, truth=0.25, target="price (EUR)")
    (axes,) = figure.axes
    assert labelled(figure) and axes.get_xlabel() == "price (EUR)" and "row 3" in _title(axes)
    density, truth = axes.lines
    assert truth.get_xdata() == [0.25, 0.25]
    y, p = density.get_xydata().T
    assert np.trapezoid(p, y) == pytest.approx(1.0, abs=1e-4)
    assert np.trapezoid(p * y, y) == pytest.approx(float(prediction.mean[3]), abs=1e-4)
    low, high = (float(prediction.quantile(level)[3]) for level in (0.05, 0.95))
    assert f"interval {low:.2g}"[:-1] in density.get_label()
    shaded = axes.collections[0].get_paths()[0].vertices[:, 0]
    step = y[1] - y[0]
    assert shaded.min() == pytest.approx(low, abs=2 * step)
    assert shaded.max() == pytest.approx(high, abs=2 * step)


def test_a_row_with_two_peaks_shows_both():
    class TwoPeaks:
        def components(self):
            yield np.array([[[0.0]], [[10.0]]]), np.ones((2, 1, 1))

    (axes,) = plots.row_distribution({"dwp": TwoPeaks()}, 0).axes
    y, p = axes.lines[0].get_xydata().T
    peaks = y[1:-1][(p[1:-1] > p[:-2]) & (p[1:-1] > p[2:])]
    assert peaks == pytest.approx([0.0, 10.0], abs=0.02)


def test_rows_that_are_not_there(models, data):
    prediction = models["dwp"].predict(data[0], num_samples=2)
    for row in (14, -1):
        with pytest.raises(ValueError, match=f"14 rows, there is no row {row}"):
            plots.row_distribution({"dwp": prediction}, row)
    with pytest.raises(ValueError, match="there is no column 1"):
        plots.row_distribution({"dwp": prediction}, 0, column=1)
    with pytest.raises(ValueError, match="must know its components"):
        plots.row_distribution({"dwp": STANDARD}, 0)  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="coverage"):
        plots.row_distribution({"dwp": prediction}, 0, coverage=90)


def test_training_curves():
    history = History()
    for step in range(50):
        history.append(step, step - 60.0, min(1.0, step / 10), 1e-2, 0.5 + step / 100, 0.0)
    figure = plots.training_curves({"dwp": history}, window=1)
    bound, noise = figure.axes
    assert labelled(figure)
    smooth = {one.get_label(): one for one in bound.lines}["dwp"]
    assert np.allclose(smooth.get_ydata(), history.elbo)
    assert np.array_equal(noise.lines[0].get_ydata(), history.noise)
    low, high = bound.get_ylim()
    assert low > -60 and high > -11  # the steps that anneal do not set the limits


def _title(axes) -> str:
    return axes.get_title(loc="left")


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
def test_gram_matrices(models, data, process, generator):
    X, y = data
    grams = plots.layer_grams(models[process], X, num_samples=3, kernels=True, generator=generator)
    names = ["input kernel", "layer 1", "kernel 2", "layer 2", "output kernel"]
    assert list(grams) == names
    for matrix in grams.values():
        assert np.allclose(matrix, matrix.T) and np.linalg.eigvalsh(matrix).min() > -1e-8
    for name in ("input kernel", "kernel 2", "output kernel"):  # heights start at one
        assert np.allclose(np.diag(grams[name]), 1.0)
    figure = plots.gram_matrices({process: grams}, y.numpy(), unit="price")
    assert figure.get_supxlabel() == figure.get_supylabel() == "rows, by price"
    maps = {_title(axes): axes.images[0] for axes in figure.axes if axes.images}
    order = np.argsort(y.numpy())
    for name in names:
        shown = maps[f"{process}: {name}"].get_array()
        assert np.array_equal(shown, grams[name][np.ix_(order, order)])


def test_grams_that_do_not_apply(data):
    import deepwishart as dw

    shallow = dw.build("dwp", *data, depth=1, num_inducing=4)
    with pytest.raises(ValueError, match="no hidden layers"):
        plots.layer_grams(shallow, data[0])
    with pytest.raises(ValueError, match=r"layer 1 has shape \(2, 2\), but there are 3 targets"):
        plots.gram_matrices({"dwp": {"layer 1": np.eye(2)}}, np.zeros(3))


def test_figures_belong_to_no_window():
    import matplotlib.pyplot

    before = matplotlib.pyplot.get_fignums()
    plots.coverage({"dwp": (torch.zeros(4), torch.ones(4))}, torch.as_tensor(Y))
    assert matplotlib.pyplot.get_fignums() == before
