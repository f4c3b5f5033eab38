"""Means over splits, the paired test between two processes, and agreement with the paper."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scipy import stats

from deepwishart.reproduction.published import Published

MIN_PAIRS = 3
SIGNIFICANCE = 0.05
LEVEL = 2.0 * float(stats.norm.sf(2.0))  # of two standard errors that are known: 4.6%


class Estimate(NamedTuple):
    """A mean over splits and its standard error, which is ``None`` for a single split."""

    mean: float
    standard_error: float | None
    num_splits: int


class PairedTest(NamedTuple):
    """The mean of first minus second over the splits that both have, and the p value of a
    two-sided paired t test, which is ``None`` with fewer than three common splits."""

    difference: Estimate
    p_value: float | None

    @property
    def significant(self) -> bool:
        """Whether p is below 0.05."""
        return self.p_value is not None and self.p_value < SIGNIFICANCE


def estimate(values: Sequence[float]) -> Estimate:
    r"""Mean and standard error of one number per split,

    .. math:: \bar x \pm \Big(\frac{1}{n (n - 1)} \sum_i (x_i - \bar x)^2\Big)^{1/2}
    """
    if not values:
        raise ValueError("A mean needs at least one value, got none.")
    n = len(values)
    error = statistics.stdev(values) / math.sqrt(n) if n > 1 else None
    return Estimate(statistics.fmean(values), error, n)


def paired_test(first: Mapping[int, float], second: Mapping[int, float]) -> PairedTest | None:
    r"""Two-sided paired t test, :math:`t = \bar d / \text{se}(\bar d)` with :math:`n - 1` degrees,
    of numbers by split; ``None`` if no split is common."""
    differences = [first[split] - second[split] for split in sorted(first.keys() & second.keys())]
    if not differences:
        return None
    found = mean, error, n = estimate(differences)
    p = None
    if error is not None and n >= MIN_PAIRS:
        same = 0.0 if mean else 1.0  # for the same difference everywhere
        p = float(2.0 * stats.t.sf(abs(mean) / error, n - 1)) if error else same
    return PairedTest(found, p)


def sign(difference: Estimate, degrees: float | None = None) -> str:
    r"""``"better"`` or ``"worse"`` if a difference is further from zero than :func:`reach` standard
    errors, else ``"match"``; ``""`` without a standard error. Degrees of freedom are
    :math:`n - 1` if ``None``."""
    if difference.standard_error is None:
        return ""
    limit = reach(difference.num_splits - 1 if degrees is None else degrees)
    if abs(difference.mean) <= limit * difference.standard_error:
        return "match"
    return "better" if difference.mean > 0 else "worse"


def reach(degrees: float) -> float:
    """How many standard errors, estimated with so many degrees of freedom, chance reaches as often
    as two that are known: a quantile of Student's t.

    >>> [round(reach(degrees), 2) for degrees in (2, 4, 19, math.inf)]
    [4.53, 2.87, 2.14, 2.0]
    """
    return float(stats.t.isf(LEVEL / 2.0, degrees))


def compare(ours: Estimate, paper: Published, *, smaller_is_better: bool = False) -> str:
    r"""The :func:`sign` of :math:`\bar x - \bar x_\text{paper}` with a standard error :math:`u` and
    :math:`\kappa` degrees of freedom (Welch and Satterthwaite),

    .. math:: u^2 = \text{se}^2 + \text{se}_\text{paper}^2 + \frac{10^{-2 d}}{12}, \qquad
              \kappa = u^4 \Big/ \Big(\frac{\text{se}^4}{n - 1}
                       + \frac{\text{se}_\text{paper}^4}{n_\text{paper} - 1}\Big),

    the last term of :math:`u^2` being the variance of rounding the paper's mean to d decimals;
    ``""`` if either has no standard error.

    Our splits are among the paper's, which makes the difference scatter less than that. Without
    the paper's numbers by split nobody can tell by how much: marks are rather too few.
    """
    if ours.standard_error is None or paper.standard_error is None:
        return ""
    rounding = 10.0**-paper.decimals / math.sqrt(12.0)
    u = math.hypot(ours.standard_error, paper.standard_error, rounding)
    spread = ours.standard_error**4 / (ours.num_splits - 1)
    spread += paper.standard_error**4 / (paper.num_splits - 1)
    difference = (ours.mean - paper.mean) * (-1 if smaller_is_better else 1)
    return sign(Estimate(difference, u, ours.num_splits), u**4 / spread if spread else math.inf)
