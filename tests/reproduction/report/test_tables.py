"""The tables, cell by cell."""

import numpy as np
import pytest
from scipy import stats

from deepwishart.reproduction.report import make_content, read_results
from deepwishart.reproduction.report.comparisons import bound_table, difference_table, family_table
from deepwishart.reproduction.report.tables import count_table, make_table
from deepwishart.reproduction.sweeps import ResultsStore, RunSpec

DWP, DGP = "DWP (paper)", "DGP (paper)"


def row(table, dataset="boston", depth=2):
    """A row of a table, its cells by heading."""
    [found] = [r for r in table.rows if r[0].text == dataset and r[1].value == depth]
    assert len(found) == len(table.headings) == len(set(table.headings))
    return dict(zip(table.headings, found, strict=True))


def runs(dwp, dgp, dataset="boston", depth=2, metric="elbo", **settings):
    """Runs of both processes, with one number per split."""
    return [
        (RunSpec(dataset, split, process, depth), {metric: value, **settings})
        for process, values in (("dwp", dwp), ("dgp", dgp))
        for split, value in enumerate(values)
    ]


def test_numbers_stand_beside_the_papers(add_runs):
    results = read_results(add_runs(*runs([-0.32, -0.34, -0.33], [-0.6, -0.61, -0.59])))
    cells = row(make_table(results, "elbo"))
    assert cells[DWP].number() == "-0.33 ± 0.01" and cells[DWP].count == 3
    assert cells["DWP published"].number() == "-0.33 ± 0.00"
    assert cells[DGP].number() == "-0.60 ± 0.01" and cells[DGP].count == 3
    assert cells["DGP published"].number() == "-0.38 ± 0.01"
    assert (cells[DWP].mark, cells[DGP].mark) == ("match", "worse")


@pytest.mark.parametrize(
    ("metric", "dwp", "dgp", "bold"),
    [
        # The splits differ by far more than the processes do: only a paired test can tell.
        ("elbo", [1.0, 5.0, 9.0, 2.0], [0.9, 4.88, 8.9, 1.91], [True, False]),
        ("elbo", [0.9, 4.88, 8.9], [1.0, 5.0, 9.0], [False, True]),
        ("elbo", [1.0, 5.0, 9.0], [0.0, 6.5, 8.9], [False, False]),
        ("elbo", [1.0, 5.0], [0.0, 4.0001], [False, False]),  # too few common splits
        ("seconds_per_epoch", [0.1, 0.11, 0.1], [0.2, 0.22, 0.2], [True, False]),
    ],
)
def test_bold_by_a_paired_test(add_runs, metric, dwp, dgp, bold):
    cells = row(make_table(read_results(add_runs(*runs(dwp, dgp, metric=metric))), metric))
    assert [cells[DWP].bold, cells[DGP].bold] == bold


def test_processes_that_only_one_side_has(make_results, add_runs):
    results = read_results(add_runs((RunSpec("moon", 0, "dwp", 1), {"elbo": 0.5})))
    bounds, likelihoods = (make_table(results, m) for m in ("elbo", "test_log_likelihood"))
    assert row(bounds, "moon", 1)[DWP].value == 0.5
    both = {*bounds.headings, *likelihoods.headings}
    assert {name for name in both if name[:2] in ("DI", "DS")} == {"DIWP published"}
    results = read_results(make_results(processes=("dwp", "dgp", "dsvi", "diwp"), depths=(4,)))
    cells = row(make_table(results, "test_log_likelihood"), depth=4)
    assert list(cells)[6:] == ["DIWP published", "DIWP (paper)", "DSVI (paper)"]
    assert cells["DIWP (paper)"].count == 5 and cells["DIWP (paper)"].mark == ""
    assert cells["DIWP published"].number() == "-2.40"


def test_counts(add_runs):
    shallow = runs([-0.33, -0.331, -0.329], [-0.20, -0.21, -0.19])
    results = read_results(add_runs(*shallow, *runs([-0.9, -0.91, -0.92], [-0.40], depth=3)))
    bounds, likelihoods = ([cell.value for cell in row[2:]] for row in count_table(results).rows)
    # cells, run, judged, match, better, worse, close
    assert bounds == [72, 4, 3, 1, 1, 1, 3]
    assert likelihoods == [72, 0, 0, 0, 0, 0, 0]
    assert make_content(results).summary == (
        "Protocol paper: 4 of 144 cells run, 3 judged (1 match, 1 better, 1 worse), 3 at or above "
        "the published mean - 0.03."
    )


def test_differences_beside_the_papers(add_runs):
    dwp, dgp = [0.1, 0.5, 0.3], [0.0, 0.38, 0.21]
    table = difference_table(read_results(add_runs(*runs(dwp, dgp))))
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
        *runs([0.1, 0.2, 0.3], [0.2, 0.31, 0.42]),
        *runs([4.0], [3.9], "naval"),
        *runs([0.0], [1.0], "wine"),  # which the paper does not call significant
        *runs([0.0], [], "yacht"),  # no difference between different settings
        *runs([], [1.0], "yacht", settings={"model": {"dtype": "float32"}}),
    )
    table = difference_table(read_results(directory))
    assert row(table)["ELBO (paper)"].mark == "contradicts"
    assert row(table, "wine")["ELBO (paper)"].mark == ""
    assert row(table, "yacht")["ELBO (paper)"].value is None
    assert "the other sign: boston 2, naval 2, significantly so: boston 2." in table.texts[0]


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
    spec = RunSpec("boston", split, "dwp", 3, 0, "fast", f"{posterior}{len(settings)}")
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
    results = read_results(directory)
    table, cells = family_table(results), row(family_table(results), depth=3)
    assert results.protocols == ("paper",) and cells["protocol"].text == "fast"
    assert cells["rows ELBO"].value == pytest.approx(0.11, rel=1e-12)
    assert cells["rows ELBO"].standard_error == pytest.approx(stats.sem(gains), rel=1e-9)
    assert cells["rows ELBO"].mark == "better" and cells["rows ELBO"].count == 3
    assert cells["rows log likelihood"].mark == "worse"
    assert cells["rows time"].value == pytest.approx(1.25)
    assert "columns ELBO" not in cells and "rows_columns ELBO" not in cells
    assert "rows: the ELBO is better in 1 and worse in 0 of 1 judged cell." in table.texts[0]
