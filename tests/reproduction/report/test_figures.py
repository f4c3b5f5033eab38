"""Figures: places, choices and descriptions."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from deepwishart.reproduction.report import make_content, read_results
from deepwishart.reproduction.report.figures import depth_figures, training_figure
from deepwishart.reproduction.sweeps import ResultsStore, RunSpec

SVG = "{http://www.w3.org/2000/svg}"


def points(svg):
    """Places of the points of a picture by their descriptions, in pixels from the top left."""
    found = []
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        title, marker = group.find(f"{SVG}title"), group.find(f".//{SVG}use")
        if title is not None:
            found.append((title.text, float(marker.attrib["x"]), float(marker.attrib["y"])))
    return found


def tips(svg):
    return [tip for tip, _, _ in points(svg)]


def test_training_curves_of_five_layer_models(make_results):
    results = read_results(make_results(num_splits=2, datasets=("boston",)))
    figure = training_figure(results)
    assert "split 0, protocol paper" in figure.title
    assert len(tips(figure.svg)) == 4 * 40  # two processes, two panels
    described = tips(figure.svg)
    assert "boston split 0 dgp depth 5\nepoch 20,000: -0.4504" in described
    assert any(
        re.match(r"boston split 0 dwp depth 5\ntraining time in seconds ", t) for t in described
    )


def test_the_split_with_both_processes_is_chosen(make_results):
    directory = make_results(num_splits=2, datasets=("boston",))
    (directory / "curves" / f"{RunSpec('boston', 0, 'dgp', 5).key}.json").unlink()
    assert "split 1" in training_figure(read_results(directory)).title


def test_epochs_of_minibatches(tmp_path):
    store = ResultsStore(tmp_path)
    spec = RunSpec("boston", 0, "dwp", 5)
    record = {**spec.to_dict(), "status": "ok", "num_train": 455}
    record["settings"] = {"protocol": {"batch_size": 100}}
    with store.writing():
        store.add(record, {"step": [0, 9], "elbo": [0.0, 1.0], "seconds": [1.0, 2.0]})
    described = tips(training_figure(read_results(tmp_path)).svg)
    assert "boston split 0 dwp depth 5\nepoch 2: 1.0000" in described


@pytest.mark.parametrize("choices", [{"depths": (2,)}, {"datasets": ("yacht",)}])
def test_a_sentence_where_the_curves_were_not_run(make_results, choices):
    results = read_results(make_results(num_splits=1, **choices))
    assert training_figure(results) is None
    section = next(s for s in make_content(results).sections if s.name == "curves")
    assert section.figures == () and "left out" in section.texts[0]


def test_results_by_depth(make_results):
    results = read_results(make_results(num_splits=3))
    boston, yacht = depth_figures(results)
    assert (boston.name, yacht.name) == ("depth-boston", "depth-yacht")
    described = tips(boston.svg)
    for run in results.runs:
        if run.spec.dataset == "boston":
            value = f"ELBO per data point {run.value('elbo'):.4f}"
            found = [tip for tip in described if tip.startswith(f"{run.spec}\n{value}")]
            assert len(found) == 2  # once beside the ELBO, once beside the log likelihood
    values = list(results.by_split("elbo", "paper", "boston", "dwp", 2).values())
    error = np.std(values, ddof=1) / np.sqrt(3)
    what = "DWP depth 2, boston, paper protocol, mean of splits: 3"
    assert f"{what}\nELBO per data point {np.mean(values):.4f} ± {error:.4f}" in described
    assert "DGP depth 5, boston, published\nTest log likelihood -2.44 ± 0.04" in described


def test_one_run_far_away_does_not_hide_the_others(add_runs):
    values = [0.01 * split for split in range(19)] + [-1e6]
    runs = [(RunSpec("moon", s, "dwp", 2), {"elbo": v}) for s, v in enumerate(values)]
    [figure] = depth_figures(read_results(add_runs(*runs)))
    heights = {tip.split("\n")[0]: y for tip, _, y in points(figure.svg)}
    assert heights["moon split 0 dwp depth 2"] - heights["moon split 18 dwp depth 2"] > 80
    assert heights["moon split 19 dwp depth 2"] > heights["moon split 0 dwp depth 2"]  # on the edge


def test_names_are_escaped(add_runs):
    name = '<b>"&x'
    [figure] = depth_figures(read_results(add_runs((RunSpec("m", 0, name, 2), {"elbo": 1.0}))))
    assert f"m split 0 {name} depth 2" in {tip.split("\n")[0] for tip in tips(figure.svg)}
