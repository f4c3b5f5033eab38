import json
import math

import pytest

from deepwishart.training import History


def history_of(elbo: list[float], annealed: int = 0) -> History:
    history = History()
    for step, value in enumerate(elbo):
        history.append(step, value, float(step >= annealed), 1e-2, 0.3, 0.1 * step)
    return history


def test_json_round_trip():
    history = history_of([0.1, 0.2, 1 / 3])
    history.stopped_by, history.recoveries = "interrupt", [2]
    assert History.from_dict(json.loads(json.dumps(history.to_dict()))) == history


def test_tensor_round_trip_keeps_every_bit():
    history, copy = history_of([1 / 3, math.pi, -1e-300]), History()
    copy.load_tensor(history.to_tensor())
    assert copy == history
    assert all(isinstance(step, int) for step in copy.step)
    copy.load_tensor(History().to_tensor())
    assert copy == History()


def test_what_is_not_a_history_is_refused():
    values = history_of([1.0, 2.0]).to_dict()
    with pytest.raises(ValueError, match="no noise"):
        History.from_dict({k: v for k, v in values.items() if k != "noise"})
    with pytest.raises(ValueError, match="differ in length"):
        History.from_dict({**values, "elbo": [1.0]})
    with pytest.raises(ValueError, match="stopped_by"):
        History.from_dict({**values, "stopped_by": "boredom"})


def test_smoothing_is_a_trailing_mean():
    history = history_of([1.0, 2.0, 3.0, 5.0])
    assert history.elbo_smoothed(3) == pytest.approx([1.0, 1.5, 2.0, 10 / 3], rel=1e-14)
    assert history.elbo_smoothed(1) == pytest.approx(history.elbo, rel=1e-14)
    assert History().elbo_smoothed(5) == []
    with pytest.raises(ValueError, match="window"):
        history.elbo_smoothed(0)


def test_truncate_forgets_later_steps():
    history = history_of([1.0, 2.0, 3.0])
    history.truncate(1)
    assert history == history_of([1.0])
