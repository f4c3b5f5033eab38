"""What a run consists of: its batches, its parameters, and its snapshots."""

import copy
import math

import pytest
import torch

from deepwishart._support.parameters import declared
from deepwishart.training import History
from deepwishart.training.state import TrainingState, given_batches, minibatches


def take(batch_size: int | None, numbers: range, seed: int = 5) -> list[list[int]]:
    rows = torch.arange(10.0)
    batches = minibatches(rows[:, None], -rows[:, None], batch_size)
    found = [batches(seed, number) for number in numbers]
    assert all(torch.equal(X, -y) for X, y in found)
    return [X.flatten().int().tolist() for X, _ in found]


def test_every_epoch_visits_every_row_once_in_a_new_order():
    first, second = take(4, range(3)), take(4, range(3, 6))
    assert [len(rows) for rows in first] == [4, 3, 3]
    for epoch in (first, second):
        assert sorted(row for rows in epoch for row in rows) == list(range(10))
    assert first != second


@pytest.mark.parametrize("batch_size", [None, 10, 11])
def test_a_full_batch_leaves_the_rows_alone(batch_size):
    assert take(batch_size, range(2)) == 2 * [list(range(10))]


def test_a_batch_depends_on_the_seed_and_its_number_alone():
    whole = take(4, range(9))
    assert all(take(4, range(done, 9)) == whole[done:] for done in (0, 1, 3, 4))
    assert take(4, range(9), seed=6) != whole


def test_given_batches_start_again_when_they_end():
    first, second = (torch.zeros(2, 1), torch.zeros(2)), (torch.ones(1, 1), torch.ones(1))
    batches = given_batches([first, second])
    assert [batches(0, 0)[0] is batch[0] for batch in (first, second, first)] == 3 * [True]


def test_given_batches_that_cannot_start_again_say_so():
    batches = given_batches(iter([(torch.zeros(2, 1), torch.zeros(2))]))
    batches(0, 0)
    with pytest.raises(ValueError, match="cannot be started again"):
        batches(0, 1)


def test_the_snapshot_stays_good_after_it_was_used(data, make_model, protocol):
    run = TrainingState(make_model(), minibatches(*data, None), protocol, history=History())

    def steps(count):
        for _ in range(count):
            run.gradient.normal_(generator=run.generator)
            run.update(1e-2)

    def tensors():
        return {name: value.clone() for name, value in run.tensors().items()}

    steps(3)
    run.keep_snapshot()
    expected = tensors()
    for _ in range(2):
        steps(2)
        run.restore()
        found = tensors()
        assert found.keys() == expected.keys() and "optimiser.exp_avg_sq.layers.0.mean" in found
        assert all(torch.equal(found[name], expected[name]) for name in expected)
        assert run.step == 3


KINDS = {
    "kernel": {"log_height", "log_lengthscale", "log_noise"},
    "scale": {"learned_root", "mixing_logit"},
    "inducing": {"inducing_inputs", "inputs"},
}


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
@pytest.mark.parametrize("output", ["inducing", "collapsed"])
def test_kinds_of_parameters_are_declared_and_survive_a_copy(make_model, process, output):
    model = make_model(process, output=output, mixing=0.1)
    for each in (model, copy.deepcopy(model), model.snapshot()):
        found = [(name, p, about) for name, p, about in declared(each)]
        assert [(name, p) for name, p, _ in found] == list(each.named_parameters())
        for name, _, about in found:
            last = name.rpartition(".")[2]
            (kind,) = [kind for kind, names in KINDS.items() if last in names] or ["posterior"]
            limits = (math.log(1e-12), math.log(1e6)) if kind == "kernel" else (-math.inf, math.inf)
            assert (name, *about) == (name, kind, *map(pytest.approx, limits))
