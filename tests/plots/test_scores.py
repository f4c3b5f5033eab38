"""Pictures of predictions, calibration, training and Gram matrices."""

import numpy as np
import pytest

from deepwishart import metrics, plots
from deepwishart.training import History

Y = np.array([-2.0, -0.5, 0.5, 1.0])
STANDARD = (np.zeros(4), np.ones(4))


def labelled(figure) -> bool:
    return all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.axes)


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


def test_training_curves():
    history = History()
    for step in range(50):
        history.append(step, step - 60.0, min(1.0, step / 10), 1e-2, 0.5 + step / 100, 0.0)
    figure = plots.training_curves({"dwp": history}, window=1)
    bound, noise = figure.axes
    assert labelled(figure)
    smooth = {one.get_label(): one for one in bound.lines}["dwp"]
    assert smooth.get_xdata()[0] == 10  # what came before is no bound
    assert np.allclose(smooth.get_ydata(), history.elbo[10:])
    assert np.array_equal(noise.lines[0].get_ydata(), history.noise)
    low, high = bound.get_ylim()
    assert low > -60 and high > -11  # the steps that anneal do not set the limits


def test_training_that_never_reached_the_bound_is_shown_all_the_same():
    history = History()
    for step in range(5):
        history.append(step, step - 60.0, 0.1 * step, 1e-2, 0.5, 0.0)
    bound = plots.training_curves({"dwp": history}, window=1).axes[0]
    assert len(bound.lines[1].get_ydata()) == 5


def _title(axes) -> str:
    return axes.get_title(loc="left")


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
def test_gram_matrices(models, data, process, generator):
    X, y = data
    grams = plots.layer_grams(models[process], X, num_samples=3, generator=generator)
    names = ["input kernel", "layer 1", "layer 2", "output kernel"]
    assert list(grams) == names
    for matrix in grams.values():
        assert np.allclose(matrix, matrix.T) and np.linalg.eigvalsh(matrix).min() > -1e-8
    for name in ("input kernel", "output kernel"):  # heights start at one
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
    plots.calibration({"dwp": metrics.calibration_curve(STANDARD, Y)}, num_rows=4)
    assert matplotlib.pyplot.get_fignums() == before
