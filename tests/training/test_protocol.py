import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from deepwishart.training import Protocol

BASE = Protocol(101, 1e-2, 1e-4, "flat", kl_anneal=20)


def test_the_papers_protocol():
    small, large = Protocol.named("paper", 2_000), Protocol.named("paper", 2_001)
    assert small.batch_size is None and large.batch_size == 1_000
    assert (small.max_iter, small.num_samples, small.kl_anneal) == (20_000, 10, 1_000)
    rates = [small.learning_rate_at(step) for step in (0, 9_999, 10_000, 19_999)]
    assert rates == [1e-2, 1e-2, 1e-3, 1e-3]


def test_flat_stays_for_half_of_the_steps_and_then_falls_in_a_line():
    rates = [BASE.learning_rate_at(step) for step in (0, 50, 75, 100)]
    assert rates == pytest.approx([1e-2, 1e-2, 0.5 * (1e-2 + 1e-4), 1e-4])


def test_a_protocol_settles_early():
    flat = Protocol(1_000, 1e-2, 1e-4, "flat", kl_anneal=10)
    assert (flat.steady_steps, flat.replace(schedule="constant").steady_steps) == (500, 1_000)
    early = flat.settle_at(200)
    assert [early.learning_rate_at(step) for step in (0, 199)] == [1e-2, 1e-2]
    assert early.learning_rate_at(399) == pytest.approx(1e-4, rel=1e-12)
    assert flat.replace(schedule="constant").settle_at(200).max_iter == 200


def test_kl_weight_rises_linearly_to_one():
    assert [BASE.kl_weight_at(step) for step in (0, 5, 20, 99)] == [0.0, 0.25, 1.0, 1.0]
    assert BASE.replace(kl_anneal=0).kl_weight_at(0) == 1.0


def test_numbers_of_other_libraries_become_plain_ones():
    made = BASE.replace(max_iter=np.int64(7), learning_rate=np.float32(0.5))
    assert type(made.max_iter) is int and type(made.learning_rate) is float
    with pytest.raises(FrozenInstanceError):
        made.max_iter = 8


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("max_iter", 0),
        ("learning_rate", math.nan),
        ("schedule", "cosin"),
        ("kl_anneal", -1),
        ("factors", {"kernel": -1.0}),
        ("betas", (0.9, 1.0)),
    ],
)
def test_errors_name_the_argument(argument, value):
    with pytest.raises(ValueError, match=argument.removesuffix("s")):
        BASE.replace(**{argument: value})
