"""The paper's numbers, spot by spot."""

import pytest

from deepwishart.reproduction import datasets
from deepwishart.reproduction.published import highlighted, published, published_kinds


def test_the_tables_cover_all_data_sets_and_depths():
    kinds = [(name, depth) for name in datasets.names() for depth in (2, 3, 4, 5)]
    for metric in ("elbo", "test_log_likelihood"):
        assert published_kinds(metric) == kinds


@pytest.mark.parametrize(
    ("metric", "dataset", "process", "depth", "mean", "error"),
    [
        ("elbo", "boston", "dgp", 4, -0.43, 0.00),
        ("elbo", "naval", "dwp", 3, 3.76, 0.11),
        ("elbo", "yacht", "dgp", 5, 1.37, 0.03),
        ("test_log_likelihood", "kin8nm", "dwp", 5, 1.40, 0.01),
        ("test_log_likelihood", "protein", "dgp", 4, -2.75, 0.01),
        ("test_log_likelihood", "naval", "diwp", 4, 5.92, None),
        ("seconds_per_epoch", "protein", "dgp", 5, 2.017, 0.0),
    ],
)
def test_spots(metric, dataset, process, depth, mean, error):
    found = published(metric, dataset, process, depth)
    assert found[:2] == (mean, error) and found.num_splits == (5 if dataset == "protein" else 20)
    assert round(mean, found.decimals) == mean


def test_what_the_paper_highlights():
    """Counted in its tables: 19 and 7 bounds, 6 and 1 log likelihoods. Always the larger mean."""
    found = {"elbo": [], "test_log_likelihood": []}
    for metric, winners in found.items():
        for kind in published_kinds(metric):
            if winner := highlighted(metric, *kind):
                other = "dgp" if winner == "dwp" else "dwp"
                means = [published(metric, kind[0], p, kind[1]).mean for p in (winner, other)]
                assert means[0] > means[1]
                winners.append(winner)
    counts = {metric: (w.count("dwp"), w.count("dgp")) for metric, w in found.items()}
    assert counts == {"elbo": (19, 7), "test_log_likelihood": (6, 1)}
