"""What is kept of a training curve, and when it reached a bound."""

import math

import numpy as np
import pytest

from deepwishart.reproduction.sweeps.curves import steps_to, thin
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
    curve = {"step": list(range(49, 20_000, 50)), "elbo": [0.0] * 400}
    curve["elbo"][:30] = [9.0] * 30  # while the KL term fades in
    curve["elbo"][100] = 4.0  # one lucky point
    curve["elbo"][200:] = [1.0] * 200
    assert steps_to(1.0, curve, annealing=1_500) == 10_400
    assert steps_to(0.5, curve, annealing=1_500) == 5_050
    assert steps_to(1.0, curve) == 400
    assert steps_to(1.1, curve, annealing=1_500) is None
