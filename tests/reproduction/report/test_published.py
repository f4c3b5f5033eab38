"""The paper's numbers, spot by spot."""

from deepwishart.reproduction import datasets
from deepwishart.reproduction.published import highlighted, published, published_kinds


def test_the_tables_cover_all_data_sets_and_depths():
    kinds = [(name, depth) for name in datasets.names() for depth in (2, 3, 4, 5)]
    for metric in ("elbo", "test_log_likelihood"):
        assert published_kinds(metric) == kinds


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
