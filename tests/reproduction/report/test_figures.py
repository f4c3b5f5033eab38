"""Figures: which there are, and what they hold."""

import numpy as np
import pytest

from deepwishart.reproduction.report import make_content, published, read_results
from deepwishart.reproduction.report.figures import depth_figures, training_figure
from deepwishart.reproduction.sweeps import RunSpec


def test_training_curves_of_five_layer_models(make_results):
    results = read_results(make_results(num_splits=2, datasets=("boston",)))
    figure = training_figure(results)
    assert "split 0, protocol paper" in figure.title
    for axes, column in zip(figure.picture.axes, ("seconds", "step"), strict=True):
        for line, process in zip(axes.lines, ("dwp", "dgp"), strict=True):
            [run] = [r for r in results.runs if r.spec == RunSpec("boston", 0, process, 5)]
            curve = results.curve(run)
            np.testing.assert_array_equal(line.get_xydata(), np.c_[curve[column], curve["elbo"]])


@pytest.mark.parametrize("choices", [{"depths": (2,)}, {"datasets": ("yacht",)}])
def test_no_section_where_the_curves_were_not_run(make_results, choices):
    results = read_results(make_results(num_splits=1, **choices))
    assert training_figure(results) is None
    assert "curves" not in {section.name for section in make_content(results).sections}


def test_results_by_depth(make_results):
    results = read_results(make_results(num_splits=3))
    boston, yacht = depth_figures(results)
    assert (boston.name, yacht.name) == ("depth-boston", "depth-yacht")
    for axes, metric in zip(boston.picture.axes, ("elbo", "test_log_likelihood"), strict=True):
        drawn = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]
        for process in ("dwp", "dgp"):
            cells = [results.by_split(metric, "paper", "boston", process, d) for d in (2, 5)]
            splits = [value for cell in cells for value in cell.values()]
            means = [np.mean(list(cell.values())) for cell in cells]
            papers = [published(metric, "boston", process, d).mean for d in (2, 5)]
            for values in (papers, splits, means):
                assert any(len(y) == len(values) and np.allclose(y, values) for y in drawn)
