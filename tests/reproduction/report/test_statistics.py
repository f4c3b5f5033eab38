"""Means, tests and comparisons, against SciPy and by hand."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from deepwishart.reproduction.report import Published
from deepwishart.reproduction.report.statistics import (
    LEVEL,
    Estimate,
    compare,
    estimate,
    paired_test,
    reach,
)


def test_estimate_agrees_with_scipy():
    values = np.random.default_rng(1).normal(size=7).tolist()
    mean, error, count = estimate(values)
    assert mean == pytest.approx(np.mean(values), rel=1e-13)
    assert error == pytest.approx(stats.sem(values), rel=1e-13)
    assert count == 7 and estimate([2.5]) == Estimate(2.5, None, 1)


def test_paired_test_uses_common_splits_only():
    random = np.random.default_rng(2)
    first = dict(enumerate(random.normal(size=9).tolist()))
    second = {split: value + 0.3 * random.normal() for split, value in first.items()}
    expected = stats.ttest_rel(list(first.values())[2:7], list(second.values())[2:7])
    first = {split: value for split, value in first.items() if split >= 2}
    second = {split: value for split, value in second.items() if split < 7}
    test = paired_test(first, second)
    assert test is not None and test.difference.num_splits == 5
    assert test.p_value == pytest.approx(expected.pvalue, rel=1e-10)
    assert math.copysign(1.0, test.difference.mean) == math.copysign(1.0, expected.statistic)


def test_fewer_than_three_common_splits_give_no_p_value():
    assert paired_test({0: 1.0, 1: 2.0}, {0: 0.0, 1: 0.9}).p_value is None
    assert paired_test({0: 1.0}, {1: 1.0}) is None


@pytest.mark.parametrize(("shift", "p_value"), [(0.0, 1.0), (0.5, 0.0)])
def test_the_same_difference_everywhere(shift, p_value):
    first = {0: 1.0, 1: 2.0, 2: 3.0}
    assert paired_test({s: v + shift for s, v in first.items()}, first).p_value == p_value


def test_chance_reaches_as_far_as_two_standard_errors_that_are_known():
    level = 2 * stats.norm.sf(2)
    assert reach(math.inf) == pytest.approx(2.0, rel=1e-12)
    for degrees in (1, 2, 3.7, 19):
        assert 2 * stats.t.sf(reach(degrees), degrees) == pytest.approx(level, rel=1e-9)


def test_degrees_of_freedom_are_welchs():
    """Without rounding, a mark flips where Welch's test has the level of two standard errors."""
    ours, paper = Estimate(0.0, 0.03, 3), (0.04, 12, 20)

    def excess(difference):
        sizes = (0.03 * 3**0.5, 3), (difference, 0.04 * 20**0.5, 20)
        return stats.ttest_ind_from_stats(0.0, *sizes[0], *sizes[1], equal_var=False).pvalue - LEVEL

    edge = optimize.brentq(excess, 0.01, 1.0)
    assert compare(ours, Published(edge * 0.999, *paper)) == "match"
    assert compare(ours, Published(edge * 1.001, *paper)) == "worse"
    assert compare(ours, Published(-edge * 1.001, *paper)) == "better"
    assert compare(ours, Published(edge * 1.001, *paper), smaller_is_better=True) == "better"


def test_a_number_that_rounds_to_the_published_one_matches():
    assert compare(Estimate(-1.1849, 1e-9, 20), Published(-1.18, 0.0, 2)) == "match"


def test_no_standard_error_no_mark():
    assert compare(Estimate(5.0, None, 1), Published(1.0, 0.1, 2)) == ""
    assert compare(Estimate(5.0, 0.1, 9), Published(1.0, None, 2)) == ""
