"""DWP against DGP, the time to the published bound, and posterior families."""

import numpy as np
import pytest
from scipy import stats

from deepwishart.reproduction.report import read_results
from deepwishart.reproduction.report.comparisons import bound_table, difference_table, family_table
from deepwishart.reproduction.sweeps import ResultsStore, RunSpec


def row(table, dataset="boston", depth=2):
    """A row of a table, its cells by heading."""
    [found] = [r for r in table.rows if r[0].text == dataset and r[1].value == depth]
    return dict(zip(table.headings, found, strict=True))


def both(dataset, dwp, dgp, depth=2, protocol="paper", **settings):
    """Runs of both processes, with one ELBO per split."""
    pairs = (("dwp", dwp), ("dgp", dgp))
    return [
        (RunSpec(dataset, split, process, depth, 0, protocol), {"elbo": value, **settings})
        for process, values in pairs
        for split, value in enumerate(values)
    ]


def test_differences_beside_the_papers(add_runs):
    dwp, dgp = [0.1, 0.5, 0.3], [0.0, 0.38, 0.21]
    table = difference_table(read_results(add_runs(*both("boston", dwp, dgp))))
    cells = row(table)
    assert cells["ELBO published"].number() == "0.05" and cells["ELBO published"].bold
    ours = cells["ELBO (paper)"]
    assert ours.value == pytest.approx(np.mean(np.subtract(dwp, dgp)), rel=1e-12)
    assert ours.standard_error == pytest.approx(stats.sem(np.subtract(dwp, dgp)), rel=1e-12)
    assert ours.bold and ours.mark == "agrees" and ours.count == 3
    assert cells["log likelihood published"].number() == "0.03"
    assert not cells["log likelihood published"].bold
    assert "of the 26 differences that the paper calls significant 1 were run, 1" in table.texts[0]


def test_a_sign_that_contradicts_the_paper(add_runs):
    directory = add_runs(
        *both("boston", [0.1, 0.2, 0.3], [0.2, 0.31, 0.42]),
        *both("naval", [4.0], [3.9]),
        *both("wine", [0.0], [1.0]),  # which the paper does not call significant
    )
    table = difference_table(read_results(directory))
    assert row(table)["ELBO (paper)"].mark == "contradicts"
    assert row(table, "wine")["ELBO (paper)"].mark == ""
    assert "the other sign: boston 2, naval 2, significantly so: boston 2." in table.texts[0]


def test_no_difference_between_different_settings(add_runs):
    dwp, dgp = (
        both("boston", [0.1], []),
        both("boston", [], [0.0], settings={"model": {"dtype": "float32"}}),
    )
    table = difference_table(read_results(add_runs(*dwp, *dgp)))
    assert row(table)["ELBO (paper)"].value is None


def test_time_to_the_published_bound(tmp_path):
    """Split 0 is there after 12 points of 10 steps, split 1 never."""
    store = ResultsStore(tmp_path)
    with store.writing():
        for split, end in ((0, -0.3), (1, -0.35)):
            record = RunSpec("boston", split, "dwp", 2).to_dict()
            curve = {"step": [*range(9, 400, 10)], "elbo": [-9.0] * 4 + [end] * 36}
            curve["seconds"] = [float(step) for step in curve["step"]]
            numbers = {"status": "ok", "elbo": end, "seconds_per_step": 0.5}
            store.add({**record, **numbers}, curve)
    table = bound_table(read_results(tmp_path))
    cells = row(table)
    assert cells["DWP steps (paper)"].number() == "120 (1/2)"
    assert cells["DWP seconds (paper)"].value == pytest.approx(60.0)
    assert cells["DGP steps (paper)"].value is None
    assert "1 of 2 runs got there, after 120 steps in the median" in table.texts[0]
    assert "20,000 steps" in table.texts[0]


def family(split, posterior, elbo, seconds, **settings):
    recorded = {"model": {"output": "collapsed", "posterior": posterior, **settings}}
    spec = RunSpec("boston", split, "dwp", 5, 0, "fast", f"{posterior}{len(settings)}")
    numbers = {"elbo": elbo, "test_log_likelihood": -elbo, "seconds_per_step": seconds}
    return spec, {**numbers, "settings": recorded}


def test_families_are_compared_pair_by_pair(add_runs):
    luck = [0.0, 3.0, 7.0, 20.0]
    gains = [0.10, 0.12, 0.11]  # 19 standard errors: chance reaches 4.5
    directory = add_runs(
        *(family(split, "bartlett", luck[split], 1.0) for split in range(4)),
        *(family(split, "rows", luck[split] + gains[split], 1.25) for split in range(3)),
        family(0, "columns", 5.0, 1.0, num_inducing=50),  # without a partner
        (RunSpec("boston", 0, "dgp", 2), {"elbo": 0.0}),  # the protocol of the report
    )
    assert read_results(directory).protocols == ("paper",)
    table = family_table(read_results(directory))
    cells = row(table, depth=5)
    assert cells["protocol"].text == "fast"
    assert cells["rows ELBO"].value == pytest.approx(0.11, rel=1e-12)
    assert cells["rows ELBO"].standard_error == pytest.approx(stats.sem(gains), rel=1e-9)
    assert cells["rows ELBO"].mark == "better" and cells["rows ELBO"].count == 3
    assert cells["rows log likelihood"].mark == "worse"
    assert cells["rows time"].value == pytest.approx(1.25)
    assert "columns ELBO" not in cells and "rows_columns ELBO" not in cells
    assert "rows: the ELBO is better in 1 and worse in 0 of 1 judged cell." in table.texts[0]
