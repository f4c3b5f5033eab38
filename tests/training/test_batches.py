import pytest
import torch

from deepwishart.training.batches import GivenBatches, Minibatches


def minibatches(batch_size: int | None, seed: int) -> Minibatches:
    rows = torch.arange(10.0)
    return Minibatches(rows[:, None], -rows[:, None], batch_size, seed)


def take(batches: Minibatches, count: int) -> list[list[int]]:
    found = [batches.next() for _ in range(count)]
    assert all(torch.equal(X, -y) for X, y in found)
    return [X.flatten().int().tolist() for X, _ in found]


def test_every_epoch_visits_every_row_once_in_a_new_order():
    batches = minibatches(4, seed=0)
    first, second = take(batches, 3), take(batches, 3)
    assert [len(rows) for rows in first] == [4, 3, 3]
    for epoch in (first, second):
        assert sorted(row for rows in epoch for row in rows) == list(range(10))
    assert first != second


@pytest.mark.parametrize("batch_size", [None, 10, 11])
def test_a_full_batch_leaves_the_rows_alone(batch_size):
    assert take(minibatches(batch_size, seed=0), 2) == 2 * [list(range(10))]


def test_the_seed_decides_the_order():
    def order(seed: int) -> list[list[int]]:
        return take(minibatches(4, seed), 9)

    assert order(0) == order(0) != order(1)


@pytest.mark.parametrize("done", [0, 1, 3, 4])
def test_state_continues_within_and_between_epochs(done):
    batches = minibatches(4, seed=5)
    take(batches, done)
    state, position = batches.state()
    state = state.clone()
    expected = take(batches, 7)
    other = minibatches(4, seed=6)
    other.load(state, position)
    assert take(other, 7) == expected
    assert state.dtype == torch.uint8


def test_given_batches_start_again_when_they_end():
    first, second = (torch.zeros(2, 1), torch.zeros(2)), (torch.ones(1, 1), torch.ones(1))
    batches = GivenBatches([first, second])
    assert [batches.next()[0] is batch[0] for batch in (first, second, first)] == 3 * [True]


def test_given_batches_that_cannot_start_again_say_so():
    batches = GivenBatches(iter([(torch.zeros(2, 1), torch.zeros(2))]))
    batches.next()
    with pytest.raises(ValueError, match="cannot be started again"):
        batches.next()
