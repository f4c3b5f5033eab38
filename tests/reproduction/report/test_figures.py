"""Charts: places, choices and descriptions."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from deepwishart.reproduction.report import Figure, depth_figures, read_results, training_figure
from deepwishart.reproduction.report.charts import Frame, ticks
from deepwishart.reproduction.sweeps import ResultsStore, RunSpec


def tips(svg):
    """Descriptions of the points of a picture; it must be well-formed, too."""
    return [
        e.attrib["data-tip"] for e in ElementTree.fromstring(svg).iter() if "data-tip" in e.attrib
    ]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 20_000.0, [0, 5_000, 10_000, 15_000, 20_000]),
        (-0.47, -0.31, [-0.45, -0.4, -0.35]),
        (-0.03, 0.03, [-0.03, -0.02, -0.01, 0.0, 0.01, 0.02, 0.03]),
        (2.0, 2.0000004, [2.0, 2.0000001, 2.0000002, 2.0000003, 2.0000004]),
    ],
)
def test_ticks_are_round_numbers(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected, rel=1e-12)


def test_a_frame_of_no_height_is_given_some():
    frame = Frame((0, 0, 100, 100), (0, 1), (3.0, 3.0), title="", x_label="", name="f")
    frame.point(0.0, 3.0, "#000", "here")
    assert 'cx="0.0" cy="50.0"' in frame.svg()


def test_points_outside_are_on_the_edge():
    frame = Frame((0, 0, 100, 100), (0, 1), (0.0, 1.0), title="", x_label="", name="f")
    frame.point(1.0, -9.0, "#000", "below")
    assert 'cx="100.0" cy="100.0"' in frame.svg()


def test_training_curves_of_five_layer_models(make_results):
    results = read_results(make_results(num_splits=2, datasets=("boston",)))
    figure = training_figure(results)
    assert isinstance(figure, Figure) and "split 0" in figure.title
    assert figure.svg.count("<polyline") == 4
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
    sentence = training_figure(read_results(make_results(num_splits=1, **choices)))
    assert isinstance(sentence, str) and "left out" in sentence


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
    values = list(results.by_split("elbo", "boston", "dwp", 2).values())
    error = np.std(values, ddof=1) / np.sqrt(3)
    text = f"mean of splits: 3\nELBO per data point {np.mean(values):.4f} ± {error:.4f}"
    assert f"DWP depth 2, boston, {text}" in described
    assert "DGP depth 5, boston, in the paper\nTest log likelihood -2.44 ± 0.04" in described


def test_one_run_far_away_does_not_hide_the_others(add_runs):
    values = [0.01 * split for split in range(19)] + [-1e6]
    runs = [(RunSpec("moon", s, "dwp", 2), {"elbo": v}) for s, v in enumerate(values)]
    [figure] = depth_figures(read_results(add_runs(*runs)))
    heights = {
        e.attrib["data-tip"].split("\n")[0]: float(e.attrib["cy"])
        for e in ElementTree.fromstring(figure.svg).iter()
        if e.attrib.get("class") == "point run"
    }
    assert heights["moon split 0 dwp depth 2"] - heights["moon split 18 dwp depth 2"] > 100


def test_names_are_escaped(add_runs):
    name = '<b>"&x'
    [figure] = depth_figures(read_results(add_runs((RunSpec("m", 0, name, 2), {"elbo": 1.0}))))
    assert f"m split 0 {name} depth 2" in {tip.split("\n")[0] for tip in tips(figure.svg)}
