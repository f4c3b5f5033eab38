"""Means over splits, the paired test between two processes, and agreement with the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deepwishart.report.published import Published

__all__ = [
    "Estimate",
    "PairedTest",
    "compare",
    "estimate",
    "paired_test",
    "student_t_two_sided",
]

MIN_PAIRS = 3


class Estimate(NamedTuple):
    """A mean over splits.

    Args:
        mean: over splits.
        standard_error: of the mean; ``None`` for a single split.
        num_splits: number of splits.
    """

    mean: float
    standard_error: float | None
    num_splits: int


class PairedTest(NamedTuple):
    """Comparison of two processes on the splits that both have.

    Args:
        difference: mean of first minus second over common splits.
        p_value: of the two-sided paired t test; ``None`` with fewer than three common splits.
        num_splits: number of common splits.
    """

    difference: float
    p_value: float | None
    num_splits: int


def estimate(values: Sequence[float]) -> Estimate:
    r"""Mean and standard error,

    .. math:: \bar x \pm \Big(\frac{1}{n (n - 1)} \sum_i (x_i - \bar x)^2\Big)^{1/2}

    Args:
        values: one number per split, at least one.

    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, standard_error=0.577..., num_splits=3)
    """
    n = len(values)
    if not n:
        raise ValueError("A mean needs at least one value, got none.")
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, 1)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return Estimate(mean, math.sqrt(squares / (n * (n - 1))), n)


def paired_test(first: Mapping[int, float], second: Mapping[int, float]) -> PairedTest | None:
    r"""Two-sided paired t test, :math:`t = \bar d / \text{se}(\bar d)` with :math:`n - 1` degrees.

    Args:
        first: numbers of one process by split.
        second: those of the other; splits that only one of them has are ignored.

    Returns:
        The test, or ``None`` if no split is common.

    >>> paired_test({0: 1.0, 1: 2.0, 2: 3.0, 7: 9.0}, {0: 0.5, 1: 1.4, 2: 2.6})
    PairedTest(difference=0.5, p_value=0.0130..., num_splits=3)
    """
    differences = [first[split] - second[split] for split in sorted(first.keys() & second.keys())]
    if not differences:
        return None
    d = estimate(differences)
    if d.num_splits < MIN_PAIRS or d.standard_error is None:
        return PairedTest(d.mean, None, d.num_splits)
    if d.standard_error == 0.0:  # the same difference everywhere
        return PairedTest(d.mean, 0.0 if d.mean else 1.0, d.num_splits)
    p = student_t_two_sided(d.mean / d.standard_error, d.num_splits - 1)
    return PairedTest(d.mean, p, d.num_splits)


def student_t_two_sided(t: float, degrees: int) -> float:
    r"""P(\|T\| > \|t\|) for Student's T with a whole number of degrees of freedom.

    With :math:`\theta = \arctan(t / \sqrt\nu)` the probability of the inside is a finite sum
    (Abramowitz and Stegun 26.7.3 and 26.7.4):

    .. math:: A = \begin{cases}
              \frac2\pi \big(\theta + \sin\theta \sum_{k=1}^{(\nu-1)/2} c_k \cos^{2k-1}\theta\big),
              \; c_1 = 1, \; c_{k+1} = c_k \tfrac{2k}{2k+1} & \nu \text{ odd} \\
              \sin\theta \sum_{k=0}^{\nu/2-1} c_k \cos^{2k}\theta,
              \; c_0 = 1, \; c_{k+1} = c_k \tfrac{2k+1}{2k+2} & \nu \text{ even} \end{cases}

    Args:
        t: value of the statistic.
        degrees: degrees of freedom :math:`\nu \ge 1`.

    >>> round(student_t_two_sided(2.0, 10), 6)
    0.073388
    """
    if degrees < 1:
        raise ValueError(f"degrees must be at least 1, got {degrees}.")
    theta = math.atan(abs(t) / math.sqrt(degrees))
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = degrees % 2
    term, total = cosine if odd else 1.0, 0.0
    for k in range(degrees // 2):
        total += term
        term *= cosine**2 * (2 * k + 1 + odd) / (2 * k + 2 + odd)
    inside = 2 / math.pi * (theta + sine * total) if odd else sine * total
    return min(1.0, max(0.0, 1.0 - inside))


def compare(ours: Estimate, paper: Published, *, smaller_is_better: bool = False) -> str:
    r"""``"match"`` if :math:`|\bar x - \bar x_\text{paper}| \le 2 u`, else better or worse, with

    .. math:: u^2 = \text{se}^2 + \text{se}_\text{paper}^2 + 10^{-2 d} / 12,

    the last term being the variance of rounding the paper's mean to d decimals.

    Args:
        ours: our mean over splits.
        paper: the published one.
        smaller_is_better: for run times.

    Returns:
        ``"match"``, ``"better"`` or ``"worse"``; ``""`` if either has no standard error.

    >>> compare(Estimate(2.1, 0.01, 20), Published(2.02, 0.01, 2))
    'better'
    """
    if ours.standard_error is None or paper.standard_error is None:
        return ""
    rounding = 10.0**-paper.decimals / math.sqrt(12.0)
    u = math.hypot(ours.standard_error, paper.standard_error, rounding)
    difference = ours.mean - paper.mean
    if abs(difference) <= 2.0 * u:
        return "match"
    return "better" if (difference < 0) == smaller_is_better else "worse"
