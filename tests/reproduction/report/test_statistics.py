"""Means, tests and comparisons, against SciPy and by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from deepwishart.reproduction.report import Published
from deepwishart.reproduction.report.statistics import Estimate, compare, estimate, paired_test


def test_estimate_agrees_with_scipy():
    values = np.random.default_rng(1).normal(size=7).tolist()
    mean, error, count = estimate(values)
    assert mean == pytest.approx(np.mean(values), rel=1e-13)
    assert error == pytest.approx(stats.sem(values), rel=1e-13)
    assert count == 7


def test_a_single_split_has_no_standard_error():
    assert estimate([2.5]) == Estimate(2.5, None, 1)


def test_no_split_is_an_error():
    with pytest.raises(ValueError, match="at least one value"):
        estimate([])


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


@pytest.mark.parametrize(
    ("difference", "smaller_is_better", "mark"),
    [
        (0.1001, False, "match"),
        (-0.1001, True, "match"),
        (0.1002, False, "better"),
        (-0.1002, False, "worse"),
        (-0.1002, True, "better"),
        (0.1002, True, "worse"),
    ],
)
def test_compare_within_two_combined_standard_errors(difference, smaller_is_better, mark):
    # 2 sqrt(0.03^2 + 0.04^2) = 0.1, and with rounding to two decimals 0.10017
    ours, paper = Estimate(1.0 + difference, 0.03, 20), Published(1.0, 0.04, 2)
    assert compare(ours, paper, smaller_is_better=smaller_is_better) == mark


def test_a_number_that_rounds_to_the_published_one_matches():
    assert compare(Estimate(-1.1849, 1e-9, 20), Published(-1.18, 0.0, 2)) == "match"


def test_no_standard_error_no_mark():
    assert compare(Estimate(5.0, None, 1), Published(1.0, 0.1, 2)) == ""
    assert compare(Estimate(5.0, 0.1, 9), Published(1.0, None, 2)) == ""
