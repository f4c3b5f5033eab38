"""The tables, cell by cell."""

import pytest

from deepwishart.reproduction.report import make_content, read_results
from deepwishart.reproduction.report.tables import count_table, make_table
from deepwishart.reproduction.sweeps import RunSpec

DWP, DGP = "DWP (paper)", "DGP (paper)"


def row(directory, metric, dataset="boston", depth=2):
    """A row of a table, its cells by heading."""
    table = make_table(read_results(directory), metric)
    [found] = [r for r in table.rows if r[0].text == dataset and r[1].value == depth]
    assert len(found) == len(table.headings) == len(set(table.headings))
    return dict(zip(table.headings, found, strict=True))


def counts(directory):
    """The numbers of the first protocol, by metric."""
    rows = count_table(read_results(directory)).rows
    names = ("elbo", "test_log_likelihood")
    return {n: [cell.value for cell in row[2:]] for n, row in zip(names, rows, strict=True)}


def runs(metric, dwp, dgp, depth=2):
    """Runs on boston, with one number per split for each process."""
    pairs = (("dwp", dwp), ("dgp", dgp))
    return [
        (RunSpec("boston", split, process, depth), {metric: value})
        for process, values in pairs
        for split, value in enumerate(values)
    ]


def test_numbers_stand_beside_the_papers(add_runs):
    cells = row(add_runs(*runs("elbo", [-0.32, -0.34, -0.33], [-0.6, -0.61, -0.59])), "elbo")
    assert cells[DWP].number() == "-0.33 ± 0.01" and cells[DWP].count == 3
    assert cells["DWP published"].number() == "-0.33 ± 0.00"
    assert cells[DGP].number() == "-0.60 ± 0.01" and cells[DGP].count == 3
    assert cells["DGP published"].number() == "-0.38 ± 0.01"
    assert (cells[DWP].mark, cells[DGP].mark) == ("match", "worse")


@pytest.mark.parametrize(
    ("dwp", "dgp", "bold"),
    [
        # The splits differ by far more than the processes do: only a paired test can tell.
        ([1.0, 5.0, 9.0, 2.0], [0.9, 4.88, 8.9, 1.91], [True, False]),
        ([0.9, 4.88, 8.9], [1.0, 5.0, 9.0], [False, True]),
        ([1.0, 5.0, 9.0], [0.0, 6.5, 8.9], [False, False]),
        ([1.0, 5.0], [0.0, 4.0001], [False, False]),  # too few common splits
    ],
)
def test_bold_by_a_paired_test(add_runs, dwp, dgp, bold):
    cells = row(add_runs(*runs("elbo", dwp, dgp)), "elbo")
    assert [cells[DWP].bold, cells[DGP].bold] == bold


def test_smaller_run_times_are_bold(add_runs):
    cells = row(
        add_runs(*runs("seconds_per_epoch", [0.1, 0.11, 0.1], [0.2, 0.22, 0.2])),
        "seconds_per_epoch",
    )
    assert cells[DWP].bold and not cells[DGP].bold
    assert cells[DWP].mark == "better"


def test_other_processes_where_present(make_results):
    directory = make_results(processes=("dwp", "dgp", "dsvi", "diwp"), depths=(4,))
    cells = row(directory, "test_log_likelihood", depth=4)
    assert list(cells)[6:] == ["DIWP published", "DIWP (paper)", "DSVI (paper)"]
    assert cells["DIWP (paper)"].count == 5 and cells["DIWP (paper)"].mark == ""
    assert cells["DIWP published"].number() == "-2.40"
    assert row(directory, "elbo", depth=4)["DSVI (paper)"].count == 5


def test_data_sets_depths_and_processes_that_only_one_side_has(add_runs):
    directory = add_runs((RunSpec("moon", 0, "dwp", 1), {"elbo": 0.5}))
    assert row(directory, "elbo", "moon", 1)[DWP].value == 0.5
    assert counts(directory)["elbo"] == [72, 0, 0, 0, 0, 0, 0]
    columns = row(directory, "test_log_likelihood").keys() | row(directory, "elbo").keys()
    assert {name for name in columns if name[:2] in ("DI", "DS")} == {"DIWP published"}


def test_summary_counts(add_runs):
    numbers = {
        2: ([-0.33, -0.331, -0.329], [-0.20, -0.21, -0.19]),
        3: ([-0.9, -0.91, -0.92], [-0.40]),
    }
    every = [run for depth, (dwp, dgp) in numbers.items() for run in runs("elbo", dwp, dgp, depth)]
    directory = add_runs(*every)
    # cells, run, judged, match, better, worse, close
    assert counts(directory)["elbo"] == [72, 4, 3, 1, 1, 1, 3]
    assert counts(directory)["test_log_likelihood"] == [72, 0, 0, 0, 0, 0, 0]
    assert make_content(read_results(directory)).summary == (
        "Protocol paper: 4 of 144 cells run, 3 judged (1 match, 1 better, 1 worse), 3 at or above "
        "the published mean - 0.03."
    )
