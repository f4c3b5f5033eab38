"""Figures show what they are given, with labelled axes and room for every text."""

import matplotlib.pyplot
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from deepwishart import plots
from deepwishart.metrics import CalibrationCurve
from deepwishart.training import History

LEVELS = np.linspace(0.1, 0.9, 9)


def history(level: float, steps: int = 200, annealing: int = 20) -> History:
    found = History()
    for step in range(steps):
        elbo = level - 5.0 / (step + 1)
        found.append(step, elbo, min(1.0, step / annealing), 1e-2, 0.5 + step, 0.01 * step)
    return found


def make_training_curves() -> Figure:
    return plots.training_curves({"first": history(-1.0), "second": history(-2.0)}, window=1)


def make_against_truth() -> Figure:
    centre = np.linspace(3, 1, 30)
    return plots.against_truth(centre, centre - 1, centre + 1, centre**2, target="price (EUR)")


def make_calibration() -> Figure:
    curves = {name: CalibrationCurve(LEVELS, LEVELS**2) for name in ("first", "second")}
    return plots.calibration(curves, num_rows=40)


ALL = [make_training_curves, make_against_truth, make_calibration]


@pytest.mark.parametrize("make", ALL)
def test_texts_do_not_overlap_and_stay_inside(make):
    before = matplotlib.pyplot.get_fignums()
    figure = make()
    assert matplotlib.pyplot.get_fignums() == before  # a figure belongs to no window
    assert all(axes.get_xlabel() for axes in figure.axes)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [text for axes in figure.axes for text in (axes.title, axes._left_title)]
    texts += [label for axes in figure.axes for label in (axes.xaxis.label, axes.yaxis.label)]
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
    boxes = [text.get_window_extent(renderer) for text in shown]
    assert len(boxes) > 5
    width, height = canvas.get_width_height()
    for index, box in enumerate(boxes):
        assert box.x0 > -1 and box.y0 > -1 and box.x1 < width + 1 and box.y1 < height + 1
        for other in boxes[index + 1 :]:
            overlap = min(box.x1, other.x1) - max(box.x0, other.x0)
            assert overlap < 1 or min(box.y1, other.y1) - max(box.y0, other.y0) < 1


def test_training_curves_leave_annealing_out():
    bound, noise = make_training_curves().axes
    first = {one.get_label(): one for one in bound.lines}["first"]
    assert first.get_xdata()[0] == 20  # what came before is no bound
    np.testing.assert_allclose(first.get_ydata(), history(-1.0).elbo[20:])
    np.testing.assert_array_equal(noise.lines[0].get_ydata(), history(-1.0).noise)
    low, high = bound.get_ylim()
    assert low > -2.6 and -1.1 < high < -0.8
    never = plots.training_curves({"dwp": history(-1.0, steps=5)}, window=1).axes[0]
    assert len(never.lines[1].get_ydata()) == 5
