"""What is kept of a training curve, and when it reached a bound."""

import math

import numpy as np
import pytest

from deepwishart.reproduction.sweeps.curves import Reached, thin, time_to_bound
from deepwishart.training import History


@pytest.mark.parametrize("length", [0, 1, 399, 400, 401, 20_000])
def test_curves_are_thinned_without_losing_ends_or_level(length):
    history = History()
    for step in range(length):
        history.append(step, math.sin(step), 1.0, 0.01, 0.1, 0.001 * step)
    curve = thin(history, 400)
    assert len(curve["step"]) == min(length, 400)
    assert curve["step"][-1:] == history.step[-1:]
    if length == 20_000:
        assert np.mean(curve["elbo"]) == pytest.approx(np.mean(history.elbo), abs=1e-5)


def test_a_bound_is_reached_when_the_average_is():
    steps = list(range(49, 20_000, 50))
    curve = {"step": steps, "elbo": [0.0] * 400, "seconds": [0.1 * step for step in steps]}
    curve["elbo"][:30] = [9.0] * 30  # while the KL term fades in
    curve["elbo"][100] = 4.0  # one lucky point
    curve["elbo"][200:] = [1.0] * 200
    assert time_to_bound(curve, 1.0, annealing=1_500) == Reached(10_400, 0.1 * steps[207])
    assert time_to_bound(curve, 0.5, annealing=1_500) == Reached(5_050, 0.1 * steps[100])
    assert time_to_bound(curve, 1.0) == Reached(400, 0.1 * steps[7])
    assert time_to_bound(curve, 1.1, annealing=1_500) is None
